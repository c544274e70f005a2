// merge_case.cc: see merge_case.h.
#include "runtime/verify/merge_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gqa {
namespace {

constexpr std::byte kPoison{0xff};  // NaN in all three types
constexpr float kEmpty = -std::numeric_limits<float>::infinity();
constexpr double kSumSlop = 2e-6;           // of what float32 sums add up
constexpr int kOfFirst = 32, kOfNext = 31;  // parts that a GPU's launches take, the others beside what is merged

std::int64_t offset(const Strides& s, int batch, int position, int head) {
  return batch * s.batch + position * s.row + head * s.head;
}

float taken(float lse) { return lse == -kEmpty ? kEmpty : lse; }  // of an empty part, which +inf marks, too

// Out is rounded once a launch; float32 is what sums are made in.
double rounding_of_one(ElementType type) { return type == ElementType::kF32 ? 0 : last_place(type); }
int roundings(int parts) { return parts <= kOfFirst ? 1 : 1 + (parts - kOfFirst + kOfNext - 1) / kOfNext; }

std::vector<MergeSizes> all_sizes() {
  std::vector<MergeSizes> all;
  for (const ElementType type : kElementTypes) {
    for (const int head_dim : {64, 128, 80, 7, 600}) all.push_back({type, 2, 2, 3, 4, head_dim, 0});
    all.push_back({type, 3, 1, 5, 3, 96, 5});
    all.push_back({type, 1, 1, 9, 2, 32, 8});
    all.push_back({type, 33, 1, 2, 3, 64, 0});
    all.push_back({type, 70, 1, 2, 3, 40, 1});
    all.push_back({type, 40, 1, 2, 3, 64, 0, type == ElementType::kF16 ? 65504.F : 3.38e38F});
    all.push_back({type, 3, 2, 3, 4, 64, 0, 0, true});
  }
  return all;
}

}  // namespace

std::span<const MergeSizes> merge_sizes() {
  static const std::vector<MergeSizes> all = all_sizes();
  return all;
}

MergeCase::MergeCase(const MergeSizes& sizes) : sizes_(sizes) {
  for (int part = 0; part < sizes.count; ++part) fill_part(part);
  merged_ = TensorBytes(nth(elements() * element_bytes(sizes.type)), kPoison);
  merged_lse_.assign(nth(rows()), std::numeric_limits<float>::quiet_NaN());
  call_.type = sizes.type;
  call_.count = sizes.count;
  call_.batch = sizes.batch;
  call_.q_len = sizes.q_len;
  call_.heads = sizes.heads;
  call_.head_dim = sizes.head_dim;
  call_.vectors = row_elements() % 8 == 0 && sizes.head_dim % 8 == 0;
  for (int part = 0; part < sizes.count; ++part)
    parts_.push_back({nullptr, nullptr, out_strides(part), lse_strides(part)});
}

std::string MergeCase::inputs() const {
  return std::string(name(sizes_.type)) + ", " + std::to_string(sizes_.count) + " parts, head_dim " +
         std::to_string(sizes_.head_dim) + (sizes_.pad > 0 ? ", gaps of " + std::to_string(sizes_.pad) : "") +
         (sizes_.most > 0 ? ", large" : "") + (sizes_.in_place ? ", in place" : "");
}

// ---- what is merged

MergeCase::Row MergeCase::row_of(int number) const {
  return {number / sizes_.heads / sizes_.q_len, number / sizes_.heads % sizes_.q_len, number % sizes_.heads};
}

// Heads lie inside queries in every other part, and queries inside heads in the others.
Strides MergeCase::out_strides(int part) const {
  const std::int64_t row = row_elements(), inner = part % 2 == 0 ? sizes_.heads : sizes_.q_len;
  return {sizes_.q_len * sizes_.heads * row, part % 2 == 0 ? inner * row : row, part % 2 == 0 ? row : inner * row};
}
Strides MergeCase::lse_strides(int part) const {
  return {sizes_.q_len * sizes_.heads, part % 3 == 2 ? sizes_.heads : 1, part % 3 == 2 ? 1 : sizes_.q_len};
}

double MergeCase::element(const TensorBytes& from, std::int64_t index) const {
  return double{load_element(sizes_.type, from.data() + index * element_bytes(sizes_.type))};
}

// Row 0 is empty in all parts, row 1 in all but the last; row 2's parts are far apart, row 3's first is near float32's
// largest, where no log-sum-exp tells one part from two, all others near its least; of the others one part in four is
// empty.
float MergeCase::lse_of(int row, int part) {
  const bool last = part + 1 == sizes_.count;
  if (row == 0 || (row == 1 && !last)) return (row + part) % 2 == 0 ? kEmpty : -kEmpty;
  if (row == 2) return part % 2 == 0 ? -900.F : 90.F + static_cast<float>(part);
  if (row == 3) return part == 0 ? 3e38F : -3.4e38F;
  if (row > 3 && !last && random_() % 4 == 0) return random_() % 2 == 0 ? kEmpty : -kEmpty;
  return 2 * normal_(random_);
}

float MergeCase::number() {
  const float normal = normal_(random_);
  return sizes_.most == 0 ? normal : sizes_.most * std::fmax(0.5F, 1 - std::abs(normal));
}

void MergeCase::fill_part(int part) {
  TensorBytes& out = outs_.emplace_back(nth(elements() * element_bytes(sizes_.type)), kPoison);
  std::vector<float>& lse = lses_.emplace_back(nth(rows()));
  for (int number_of_row = 0; number_of_row < rows(); ++number_of_row) {
    const auto [b, i, h] = row_of(number_of_row);
    const float lse_here = lse_of(number_of_row, part);
    lse[nth(offset(lse_strides(part), b, i, h))] = lse_here;
    const std::int64_t first = offset(out_strides(part), b, i, h), bytes = gqa::element_bytes(sizes_.type);
    for (int d = 0; d < sizes_.head_dim && std::isfinite(lse_here); ++d)
      store_element(sizes_.type, number(), out.data() + (first + d) * bytes);
  }
}

void MergeCase::shift_row(int row, float by) {
  const auto [b, i, h] = row_of(row);
  for (int part = 0; part < sizes_.count; ++part) lses_[nth(part)][nth(offset(lse_strides(part), b, i, h))] += by;
}

Status MergeCase::place(TrialMemory* memory) {
  Status status;
  const auto give = [&](const char* what, const void* from, std::size_t bytes) {
    void* address = nullptr;
    if (status.ok()) status = memory->put(what, from, bytes, &address);
    return address;
  };
  for (int part = 0; part < sizes_.count; ++part) {
    parts_[nth(part)].out = give("outs", outs_[nth(part)].data(), outs_[nth(part)].size());
    parts_[nth(part)].lse = static_cast<float*>(give("lses", lses_[nth(part)].data(), 4 * lses_[nth(part)].size()));
  }
  call_.parts = parts_.data();
  call_.stream = memory->stream();
  call_.merged = parts_.front();
  if (sizes_.in_place) return status;
  call_.merged.out = give("out", merged_.data(), merged_.size());
  call_.merged.lse = static_cast<float*>(give("lse", merged_lse_.data(), 4 * merged_lse_.size()));
  return status;
}

Status MergeCase::launch(const LoadedProgram& program) const {
  return program.run({.stream = call_.stream, .merge = &call_});
}

Status MergeCase::run(const LoadedProgram& program, TrialMemory* memory) {
  Status status = launch(program);
  return status.ok() ? read(memory) : status;
}

Status MergeCase::read(TrialMemory* memory) {
  Status status = memory->get(call_.merged.out, merged_.size(), merged_.data());
  return status.ok() ? memory->get(call_.merged.lse, 4 * merged_lse_.size(), merged_lse_.data()) : status;
}

// ---- what must come of it

// What each part weighs in a row; 0 for all where none has a key.
std::vector<double> MergeCase::weights_of(const Row& row, double* lse) const {
  std::vector<double> weights;
  double most = double{kEmpty}, sum = 0;
  for (int part = 0; part < sizes_.count; ++part) {
    const std::int64_t index = offset(lse_strides(part), row.batch, row.position, row.head);
    weights.push_back(double{taken(lses_[nth(part)][nth(index)])});
    most = std::max(most, weights.back());
  }
  for (double& weight : weights) sum += weight = weight == double{kEmpty} ? 0 : std::exp(weight - most);
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 0;
  *lse = sum > 0 ? most + std::log(sum) : double{kEmpty};
  return weights;
}

MergeCase::Element MergeCase::expected(const Row& row, const std::vector<double>& weights, int d) const {
  double value = 0, size = 0;
  for (int part = 0; part < sizes_.count; ++part) {
    if (weights[nth(part)] == 0) continue;
    const std::int64_t index = offset(out_strides(part), row.batch, row.position, row.head) + d;
    const double x = element(outs_[nth(part)], index) * weights[nth(part)];
    value += x;
    size += std::fabs(x);
  }
  const int times = roundings(sizes_.count);
  const double rounded = std::max(std::fabs(value), times > 1 ? size : 0);
  return {value, 1.01 * times * rounding_of_one(sizes_.type) * rounded + kSumSlop * size + least(sizes_.type)};
}

// The first element after a row that is no longer poison, where the gaps are nobody's.
std::string MergeCase::stray() const {
  const std::int64_t bytes = element_bytes(sizes_.type);
  for (int row = 0; row < rows(); ++row)
    for (int d = sizes_.head_dim; d < row_elements(); ++d) {
      const std::byte* const gap = merged_.data() + (std::int64_t{row} * row_elements() + d) * bytes;
      if (std::any_of(gap, gap + bytes, [](std::byte byte) { return byte != kPoison; }))
        return "element " + std::to_string(d) + " after row " + std::to_string(row) + " was written";
    }
  return "";
}

std::vector<Measured> MergeCase::measured() const {
  Measured out, lse;
  out.output = "out";
  lse.output = "lse";
  out.stray = stray();
  Share worst = {ErrorKind::kElement, "row 0", 0, 1}, worst_lse = {ErrorKind::kLse, "row 0", 0, 1};
  const auto keep = [](Share* worst_yet, double error, const std::string& where) {
    if (error <= worst_yet->error) return;
    worst_yet->error = error;
    worst_yet->where = where;
  };
  for (int number_of_row = 0; number_of_row < rows(); ++number_of_row) {
    const Row row = row_of(number_of_row);
    const std::string where =
        "(" + std::to_string(row.batch) + ", " + std::to_string(row.position) + ", " + std::to_string(row.head) + ")";
    double lse_expected = 0;
    const std::vector<double> weights = weights_of(row, &lse_expected);
    const double lse_found = double{merged_lse_[nth(offset(lse_strides(0), row.batch, row.position, row.head))]};
    if (lse_found != lse_expected) {
      const double error = std::fabs(lse_found - lse_expected) / (kSumSlop * (1 + std::fabs(lse_expected)));
      if (!std::isfinite(error) && lse.other_kind.empty())
        lse.other_kind =
            "row " + where + " is " + std::to_string(lse_found) + ", expected " + std::to_string(lse_expected);
      else
        keep(&worst_lse, error, "row " + where);
    }
    for (int d = 0; d < sizes_.head_dim; ++d) {
      const Element one = expected(row, weights, d);
      const double found = element(merged_, offset(out_strides(0), row.batch, row.position, row.head) + d);
      const std::string name = "element " + std::to_string(d) + " of row " + where;
      if (!std::isfinite(found) && out.other_kind.empty())
        out.other_kind = name + " is " + std::to_string(found) + ", expected " + std::to_string(one.value);
      else if (found != one.value)
        keep(&worst, std::fabs(found - one.value) / one.bound, name);
    }
  }
  out.errors = {std::move(worst)};
  lse.errors = {std::move(worst_lse)};
  return {std::move(out), std::move(lse)};
}

}  // namespace gqa

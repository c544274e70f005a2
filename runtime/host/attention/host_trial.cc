// host_trial.cc: see host_trial.h.
#include "runtime/host/attention/host_trial.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "jit/device/check/trial_inputs.h"
#include "runtime/element.h"
#include "runtime/host/rotation.h"
#include "runtime/parallel.h"
#include "runtime/verify/reference.h"

namespace gqa {
namespace {

constexpr std::int64_t kGuard = TrialLayout::kGuard;
constexpr std::int64_t kMaxInputBytes = 1LL << 30;
constexpr std::int64_t kPeriod = 1048573;   // of the inputs: a prime
constexpr std::int64_t kFillPiece = 65536;  // elements, a turn of a thread
// What a variant's reference may cost a thread, in multiply-adds: a share of the budget at the speed of an ordinary
// core. So many rows are checked whatever that costs.
constexpr double kRowsBudgetShare = 0.1, kRowWorkASecond = 1e9, kMostRowWork = 2e8;
constexpr std::int64_t kFewestRows = 4;
constexpr int kMaxSets = 16;
constexpr std::uint64_t kListSeed = 4;
constexpr std::byte kPoison{0xff};  // NaN in all types

std::size_t size_of(std::int64_t number) { return static_cast<std::size_t>(number); }

bool is_poison(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits == 0xffffffffU;
}

// How many of some elements are poison, and how many are NaN or infinite otherwise.
struct Found {
  std::int64_t poison = 0, nonfinite = 0;
};

template <typename Bits>
Found look(const std::byte* elements, std::int64_t count, Bits exponent) {
  Found found;
  for (std::int64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, elements + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    found.poison += bits == static_cast<Bits>(-1);
    found.nonfinite += (bits & exponent) == exponent;
  }
  found.nonfinite -= found.poison;
  return found;
}

Found look(ElementType type, const std::byte* elements, std::int64_t count) {
  if (type == ElementType::kF32) return look<std::uint32_t>(elements, count, 0x7f800000);
  return look<std::uint16_t>(elements, count, type == ElementType::kBF16 ? 0x7f80 : 0x7c00);
}

RowPlace place_of(const Problem& p, std::int64_t row) {
  return {static_cast<int>(row / p.q_len / p.q_heads), static_cast<int>(row / p.q_len % p.q_heads),
          static_cast<int>(row % p.q_len)};
}

}  // namespace

HostTrial::HostTrial(const Problem& problem, const DeviceSpec& spec, const Effort& effort)
    : layout_(problem),
      verified_(verification_lists(problem, kListSeed)),
      timed_(timing_lists(problem, kListSeed)),
      arrays_(trial_arrays(problem, kListSeed)),
      threads_(spec.sms),
      effort_(effort) {
  const std::int64_t bytes = std::min({2 * spec.l2_bytes, kMaxInputBytes, rotated_bytes(effort)});
  sets_ = static_cast<int>(std::clamp<std::int64_t>(bytes / layout_.input_bytes() + 1, 1, kMaxSets));
  q_ = fill(layout_.q, sets_, 1);
  k_ = fill(layout_.k, sets_, 2);
  v_ = fill(layout_.v, sets_, 3);
  hard_q_ = fill(layout_.q, 1, 1);
  set_elements(layout_.trial_rows(TrialTensor::kKeys), layout_.k * sets_, kColumns, k_.get());
  set_elements(layout_.trial_rows(TrialTensor::kHardQueries), layout_.q, problem.head_dim, hard_q_.get());
  poison_unused(k_.get(), layout_.k_strides);
  poison_unused(v_.get(), layout_.v_strides);
  out_.resize(size_of(layout_.out_slab() * layout_.element_bytes()));
  lse_.resize(size_of(layout_.lse_slab()));
}

Status HostTrial::make(const Problem& problem, const DeviceSpec& spec, const Effort& effort,
                       std::unique_ptr<Trial>* trial) {
  std::unique_ptr<HostTrial> made(new HostTrial(problem, spec, effort));
  made->prepare(problem, made->q_.get(), &made->variants_[0]);
  made->prepare(ragged(problem), made->hard_q_.get(), &made->variants_[1]);
  if (Status status = effort.check(); !status.ok()) return status;
  *trial = std::move(made);
  return {};
}

// A period of random numbers again and again: it is odd, so that no two rows of one tensor and no two tiles are alike.
HostTrial::Elements HostTrial::fill(std::int64_t count, int sets, std::uint64_t seed) const {
  const ElementType type = layout_.problem.q_type;
  const std::int64_t bytes = layout_.element_bytes();
  std::vector<std::byte> period(static_cast<std::size_t>(kPeriod * bytes));
  parallel_for((kPeriod + kFillPiece - 1) / kFillPiece, threads_, [&](std::int64_t piece) {
    for (std::int64_t i = piece * kFillPiece; i < std::min(kPeriod, (piece + 1) * kFillPiece); ++i)
      store_element(type, near_normal(seed * 0x100000001ULL + static_cast<std::uint64_t>(i)),
                    &period[size_of(i * bytes)]);
  });
  const std::int64_t total = layout_.input_slab(count, sets);
  Elements data(new std::byte[size_of(total * bytes)]);
  parallel_for((total + kFillPiece - 1) / kFillPiece, threads_, [&](std::int64_t piece) {
    if (effort_.cancelled()) return;
    for (std::int64_t i = piece * kFillPiece, end = std::min(total, i + kFillPiece); i < end;) {
      const std::int64_t run = std::min(end - i, kPeriod - i % kPeriod);
      std::copy_n(&period[size_of(i % kPeriod * bytes)], run * bytes, data.get() + i * bytes);
      i += run;
    }
  });
  return data;
}

// The last so many elements of each row of the tensor, by what stands there.
void HostTrial::set_elements(const TrialRows& rows, std::int64_t count, int last, std::byte* slab) const {
  const ElementType type = layout_.problem.q_type;
  const std::int64_t piece = std::max<std::int64_t>(1, kFillPiece / rows.head_dim), all = count / rows.head_dim;
  parallel_for((all + piece - 1) / piece, threads_, [&](std::int64_t at) {
    for (std::int64_t row = at * piece; row < std::min(all, (at + 1) * piece) && !effort_.cancelled(); ++row)
      for (int d = rows.head_dim - last; d < rows.head_dim; ++d) {
        const std::int64_t index = row * rows.head_dim + d;
        std::byte* element = slab + (layout_.shift + index) * layout_.element_bytes();
        store_element(type, trial_element(rows, load_element(type, element), index), element);
      }
  });
}

// In the first set, which verification reads.
void HostTrial::poison_unused(std::byte* elements, const Strides& strides) const {
  for (const KeyRun& run : unused_keys(layout_.problem, verified_))
    std::fill_n(elements + (layout_.shift + run.first * strides.row) * layout_.element_bytes(),
                run.count * strides.row * layout_.element_bytes(), kPoison);
}

Call HostTrial::call(const Problem& problem, const TrialLists& lists, std::byte* q, int set) {
  Call slabs;
  slabs.place(Role::kQ, q);
  slabs.place(Role::kK, k_.get());
  slabs.place(Role::kV, v_.get());
  slabs.place(Role::kOut, out_.data());
  slabs.place(Role::kLse, lse_.data());
  for (const TrialOperand& operand : operands_of(layout_.problem, lists))
    slabs.set(operand.role, operand.data, operand.strides);
  for (const TrialOperand& operand : operands_of(arrays_)) slabs.set(operand.role, operand.data, operand.strides);
  return layout_.call(slabs, problem, set);
}

void HostTrial::prepare(const Problem& problem, std::byte* q, Variant* variant) {
  variant->problem = problem;
  variant->q = q;
  const double work = std::min(kMostRowWork, kRowsBudgetShare * effort_.budget() * kRowWorkASecond) * threads_;
  const auto most = static_cast<std::int64_t>(work / static_cast<double>(reference_work(problem)));
  variant->rows = rows_to_check(problem, verified_, std::max(kFewestRows, most));
  std::vector<RowPlace> places;
  for (const std::int64_t row : variant->rows) places.push_back(place_of(problem, row));
  variant->reference = reference_rows(call(problem, verified_, q, 0), places, workers_of(effort_, threads_));
}

void HostTrial::poison() {
  std::fill(out_.begin(), out_.end(), kPoison);
  if (!lse_.empty()) std::memset(lse_.data(), 0xff, lse_.size() * sizeof(float));
}

// Rows are out's, sequence after sequence.
bool HostTrial::row_exists(const Problem& problem, std::int64_t row) const {
  if (problem.q_packed()) return row < query_rows(problem, verified_);
  return row % layout_.problem.q_len < problem.q_len;
}

// Inside the problem every element must be written and finite, outside it must still be poison.
void HostTrial::scan(const Problem& problem, Comparison* comparison) const {
  const ElementType type = layout_.problem.out_type;
  const std::int64_t bytes = layout_.element_bytes(), all = layout_.out_slab();
  const std::int64_t extent = std::int64_t{layout_.problem.q_heads} * layout_.problem.head_dim_v;
  const auto strays = [&](std::int64_t first, std::int64_t count) {
    return count - look(type, out_.data() + first * bytes, count).poison;
  };
  const std::int64_t first = layout_.first_out(), last = first + layout_.out;
  std::atomic<std::int64_t> unwritten = 0, nonfinite = 0, stray = strays(0, first) + strays(last, all - last);
  parallel_for(layout_.out / extent, threads_, [&](std::int64_t i) {  // all heads of a position
    const Found found = look(type, out_.data() + (first + i * extent) * bytes, extent);
    if (!row_exists(problem, i)) {
      stray += extent - found.poison;
    } else {
      unwritten += found.poison;
      nonfinite += found.nonfinite;
    }
  });
  comparison->unwritten += unwritten;
  comparison->nonfinite += nonfinite;
  comparison->stray += stray;
  scan_lse(problem, comparison);
}

void HostTrial::scan_lse(const Problem& problem, Comparison* comparison) const {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(lse_.size()); ++i) {
    const std::int64_t at = i - kGuard;
    const bool inside = at >= 0 && at < layout_.lse && row_exists(problem, at % layout_.lse_head_stride());
    const bool poisoned = is_poison(lse_[size_of(i)]);
    comparison->unwritten += inside && poisoned;
    comparison->stray += !inside && !poisoned;
  }
}

void HostTrial::compare(const Variant& variant, Comparison* comparison) const {
  const Problem& p = layout_.problem;
  const std::int64_t dim = p.head_dim_v;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(variant.rows.size()); ++i) {
    const RowPlace place = place_of(variant.problem, variant.rows[static_cast<std::size_t>(i)]);
    const std::int64_t out = layout_.out_at(verified_, place.batch, place.position, place.head);
    RowError row;
    for (std::int64_t d = 0; d < dim; ++d)
      row.add(double{load_element(p.out_type, out_.data() + (out + d) * layout_.element_bytes())} -
                  variant.reference.out[size_of(i * dim + d)],
              i * dim + d);
    comparison->rows.add(i, variant.reference.units[static_cast<std::size_t>(i)], row);
  }
  if (p.lse) compare_lse(variant, comparison);
}

void HostTrial::compare_lse(const Variant& variant, Comparison* comparison) const {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(variant.rows.size()); ++i) {
    const RowPlace place = place_of(variant.problem, variant.rows[static_cast<std::size_t>(i)]);
    const std::int64_t at = layout_.lse_at(verified_, place.batch, place.position, place.head);
    const double given = double{lse_[size_of(at)]};
    const double expected = variant.reference.lse[static_cast<std::size_t>(i)];
    const double share = given == expected ? 0 : in_unit(std::fabs(given - expected), lse_allowed(expected));
    if (share <= comparison->lse_share) continue;
    comparison->lse_share = share;
    comparison->worst_lse_index = i;
  }
}

// Fails where it was given up on the way.
Status HostTrial::launch(const LoadedProgram& program, const Call& with, double* microseconds) const {
  const GivesUp gives_up(effort_);
  const auto begin = std::chrono::steady_clock::now();
  Status status = program.run(with);
  *microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return status.ok() ? effort_.check() : status;
}

Verdict HostTrial::verify(const LoadedProgram& program) {
  double first_us = 0;
  bool hopeless = false;
  Verdict verdict = gqa::verify(std::size(variants_), [&](std::size_t run, std::vector<Measured>* outputs) -> Status {
    const Variant& variant = variants_[run];
    poison();
    double us = 0;
    if (Status status = launch(program, call(variant.problem, verified_, variant.q, 0), &us); !status.ok())
      return status;
    if (run == 0) first_us = us;
    hopeless = first_us > hopeless_us;
    if (hopeless) return {Code::kNoCandidate, "far slower than others"};
    Comparison comparison;
    scan(variant.problem, &comparison);
    compare(variant, &comparison);
    *outputs = measured(variant.problem, variant.rows, comparison, run == 0 ? "" : kHardInputs);
    return {};
  });
  verdict.run_us = first_us;
  verdict.hopeless = hopeless;
  return verdict;
}

Status HostTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
    const Call c = call(layout_.problem, timed_, q_.get(), next_set_++ % sets_);
    double us = 0;
    if (Status status = launch(program, c, &us); !status.ok()) return status;
    microseconds->push_back(us);
  }
  return {};
}

}  // namespace gqa

// append_case.cc: see append_case.h.
#include "runtime/verify/append_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/half.h"

namespace gqa {
namespace {

constexpr DType kF16 = DType::kF16, kBF16 = DType::kBF16;
constexpr int kMostPairs = 32;          // of a rotation
constexpr int kManyQueries = 830;       // of each sequence: more than kManyRows of append_plan.cc in all
constexpr double kFloatSlop = 0x1p-22;  // of what a float32 sum of two products adds up
constexpr double kCopied = 0x1p-13;     // less than half a last place of either type: the bits are the same

// clang-format off
const AppendKind kKinds[] = {
    {kF16},
    {kBF16, 0, 32, true, true},
    {kF16, 7, 64, false, true},
    {kBF16, 16, 16, false, false, true},
    {kF16, 0, 48, true, false, false, true, true},
    {kF16, 0, 32, false, true, true, true, false, true},
    {kBF16, 1, 0, false, false, true},
    {kF16, 7, 0, false, false, false, true},
    {kBF16, 16, 32, true, true, true, true, true},
    {kF16, 7, 0, false, false, false, false, true},
    {kF16, 7, 0, false, false, false, false, true, false, false},
    // Rows that are not, or not all, in pieces of 16 bytes: by rotary_dim, by heads, by rows, by angles.
    {.type = kBF16, .page = 7, .rotary_dim = 20},
    {.rotary_dim = 24, .interleaved = true, .advances = true},
    {.rotary_dim = 32, .given = {1, 4}},
    {.rotary_dim = 32, .interleaved = true, .cache = {1, 2}},
    {.type = kBF16, .rotary_dim = 32, .interleaved = true, .packed = true, .given = {0, 1}},
    {.page = 16, .rotary_dim = 64, .cache = {0, 1}},
    {.rotary_dim = 48, .advances = true, .cos_gap = 1},
    {.rotary_dim = 32, .interleaved = true, .sin_gap = 1},
    {.rotary_dim = 32, .packed = true, .batch_idx = true, .whole_rows = true},
    {.batch_idx = true, .leftpad = true, .values_apart = true},
    {.page = 16, .rotary_dim = 16, .advances = true, .many_rows = true},
};
// clang-format on

std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

double last_place(DType type) { return type == kBF16 ? 0x1p-8 : 0x1p-11; }  // half of one, of a number of its size
double least(DType type) { return type == kBF16 ? 0 : 0x1p-25; }

Measured wrong(const char* output, std::string what) {
  Measured measured;
  measured.output = output;
  measured.other_kind = std::move(what);
  return measured;
}

// What stands where attention does in a case that is only launched.
class Nothing final : public LoadedProgram {
 public:
  Status run(const ProgramCall&) const override { return {}; }
};

}  // namespace

std::span<const AppendKind> append_kinds() { return kKinds; }

AppendSizes::AppendSizes(const AppendKind& kind) {
  if (!kind.many_rows) return;
  queries = kManyQueries;
  most = kManyQueries + 30;
  head_dim = head_dim_v = 16;
  q_heads = 3;
  kv_heads = 2;
}

AppendCase::Expected::Expected(std::size_t elements)
    : values(elements, std::numeric_limits<double>::quiet_NaN()), bounds(elements) {}

// Stands where attention does, and reads what it would.
class AppendCase::Attending final : public LoadedProgram {
 public:
  Attending(AppendCase* one, TrialMemory* memory) : case_(one), memory_(memory) {}
  Status run(const ProgramCall& call) const override {
    ran_ = true;
    return case_->read(*call.attention, memory_);
  }
  bool ran() const { return ran_; }

 private:
  AppendCase* const case_;
  TrialMemory* const memory_;
  mutable bool ran_ = false;
};

AppendCase::AppendCase(const AppendKind& kind) : kind_(kind), sizes_(kind) {
  // No room for the third, for one key of the fourth.
  lengths_ = {20, 0, sizes_.most, sizes_.most - 1, 13};
  rows_ = kind.batch_idx ? std::vector<std::int32_t>{6, 0, 3, 4, 1} : std::vector<std::int32_t>{0, 1, 2, 3, 4};
  leftpad_ = kind.leftpad ? std::vector<std::int32_t>{4, 0, 0, 39, 10} : std::vector<std::int32_t>(at(sizes_.batch));
  counts_ = std::vector<std::int32_t>(at(sizes_.batch), kind.adds ? sizes_.queries : 0);
  if (kind.packed) counts_ = {3, 1, 2, 0, 2};
  rotary_starts_ = {2, 44, 0, 7, 47};
  starts_ = {0};
  for (const std::int32_t count : counts_) starts_.push_back(starts_.back() + count);
  make_tensors();
  make_call();
}

std::string AppendCase::inputs() const {
  std::string words(name(kind_.type));
  const auto add = [&](bool given, const std::string& word) { words += given ? ", " + word : ""; };
  add(kind_.page > 0, "page " + std::to_string(kind_.page));
  add(kind_.rotary_dim > 0, "rotary_dim " + std::to_string(kind_.rotary_dim));
  add(kind_.interleaved, "interleaved");
  add(kind_.advances, "advancing");
  add(kind_.packed, "packed");
  add(kind_.batch_idx, "cache_batch_idx");
  add(kind_.leftpad, "cache_leftpad");
  add(kind_.own_rotary, "rotary_seqlens");
  add(!kind_.adds, "nothing new");
  add(kind_.given.head + kind_.given.row + kind_.cache.head + kind_.cache.row + kind_.cos_gap + kind_.sin_gap > 0,
      "gaps");
  add(kind_.whole_rows || kind_.values_apart, "rows apart");
  add(kind_.many_rows, "many rows");
  return words;
}

// ---- what the call brings

std::size_t AppendCase::row_size(const AppendGaps& gaps, int heads, int dim) const {
  return at(heads * (dim + gaps.head) + gaps.row);
}

Strides AppendCase::strides(const AppendGaps& gaps, std::int64_t rows, int heads, int dim) const {
  const auto row = static_cast<std::int64_t>(row_size(gaps, heads, dim));
  return {rows * row, row, dim + gaps.head};
}

// From a row of the cache, or a page, to the next: slots of keys, or of values, as the dimension tells them.
int AppendCase::rows_between(int dim) const {
  return kind_.page > 0 ? kind_.page : sizes_.most + (kind_.values_apart && dim == sizes_.head_dim_v ? 3 : 0);
}

std::size_t AppendCase::tokens() const { return at(kind_.packed ? starts_.back() : sizes_.batch * sizes_.queries); }
int AppendCase::first_token(int sequence) const {
  return kind_.packed ? starts_[at(sequence)] : sequence * sizes_.queries;
}

AppendCase::Bits AppendCase::normal(std::size_t count) {
  std::normal_distribution<float> distribution;
  Bits made(count);
  for (std::uint16_t& each : made) each = store(kind_.type, distribution(random_));
  return made;
}

void AppendCase::make_tensors() {
  q_ = normal(tokens() * row_size(kind_.given, sizes_.q_heads, sizes_.head_dim));
  k_new_ = normal(tokens() * row_size(kind_.given, sizes_.kv_heads, sizes_.head_dim));
  v_new_ = normal(tokens() * row_size(kind_.given, sizes_.kv_heads, sizes_.head_dim_v));
  cos_ = normal(at(sizes_.positions * (kMostPairs + kind_.cos_gap)));
  sin_ = normal(at(sizes_.positions * (kMostPairs + kind_.sin_gap)));
  if (kind_.page > 0) {
    const int used = sizes_.cache_rows * table_width();
    pages_ = used + 1;
    while (std::gcd(3, pages_) != 1) ++pages_;
    for (int i = 0; i < used; ++i) table_.push_back((i * 3 + 1) % pages_);
  }
  const int rows = kind_.page > 0 ? pages_ : sizes_.cache_rows;
  const std::uint16_t nan = store(kind_.type, NAN);
  const auto slots = [&](int dim) {
    return at(rows) * at(rows_between(dim)) * row_size(kind_.cache, sizes_.kv_heads, dim);
  };
  k_.assign(slots(sizes_.head_dim), nan);
  v_.assign(slots(sizes_.head_dim_v), nan);
}

void AppendCase::make_call() {
  const int out_page = kind_.whole_rows ? sizes_.most : kind_.leftpad && kind_.page > 0 ? 1 : kind_.page;
  Problem& p = call_.problem;
  p.set_types(kind_.type);
  p.batch = sizes_.batch;
  p.q_len = sizes_.queries;
  p.kv_len = sizes_.most;
  p.q_heads = sizes_.q_heads;
  p.kv_heads = sizes_.kv_heads;
  p.head_dim = sizes_.head_dim;
  p.head_dim_v = sizes_.head_dim_v;
  p.page = out_page;
  p.keys = p.page > 0 ? KeyLayout::kPaged : KeyLayout::kDense;
  p.set_q_packed(kind_.packed);
  p.kv_lengths = kind_.starts() ? Lengths::kPacked : Lengths::kEach;
  const std::int64_t each = kind_.packed ? 0 : sizes_.queries;
  call_.strides(Role::kQ) = strides(kind_.given, each, sizes_.q_heads, sizes_.head_dim);
  call_.strides(Role::kK) = strides(kind_.cache, rows_between(sizes_.head_dim), sizes_.kv_heads, sizes_.head_dim);
  call_.strides(Role::kV) = strides(kind_.cache, rows_between(sizes_.head_dim_v), sizes_.kv_heads, sizes_.head_dim_v);
  call_.strides(Role::kNewK) = strides(kind_.given, each, sizes_.kv_heads, sizes_.head_dim);
  call_.strides(Role::kNewV) = strides(kind_.given, each, sizes_.kv_heads, sizes_.head_dim_v);
  call_.strides(Role::kPageTable).batch = kind_.page > 0 ? table_width() : 0;
  call_.strides(Role::kCos).row = kMostPairs + kind_.cos_gap;
  call_.strides(Role::kSin).row = kMostPairs + kind_.sin_gap;
  call_.q_rows = static_cast<std::int64_t>(tokens());
  call_.pages = kind_.whole_rows ? sizes_.cache_rows : kind_.leftpad ? pages_ * kind_.page : pages_;
  Append& append = call_.append;
  append.rows = kind_.adds ? static_cast<std::int32_t>(tokens()) : 0;
  append.count = kind_.packed ? 0 : sizes_.queries;
  append.rotary_dim = kind_.rotary_dim;
  append.rotary_len = sizes_.positions;
  append.interleaved = kind_.interleaved;
  append.advances = kind_.advances;
  append.page = kind_.whole_rows ? sizes_.most : kind_.page;
  append.pages = kind_.whole_rows ? sizes_.cache_rows : pages_;
  append.cache_batch = sizes_.cache_rows;
  append.cache_batch_rows = rows_between(sizes_.head_dim);
  append.cache_batch_values = rows_between(sizes_.head_dim_v);
}

Status AppendCase::place(TrialMemory* memory) {
  Status status;
  const auto give = [&](bool given, Role role, const char* what, const auto& numbers) {
    if (!given || !status.ok()) return;
    void* address = nullptr;
    status = put(what, numbers, memory, &address);
    call_.place(role, address);
  };
  const bool rotates = kind_.rotary_dim > 0;
  give(true, Role::kQ, "q", q_);
  give(true, Role::kK, "k", k_);
  give(true, Role::kV, "v", v_);
  give(true, Role::kKvLengths, "lengths", lengths_);
  give(kind_.page > 0, Role::kPageTable, "table", table_);
  give(kind_.packed, Role::kQStarts, "q_starts", starts_);
  give(kind_.packed, Role::kNewStarts, "new_starts", starts_);
  give(kind_.adds, Role::kNewK, "k_new", k_new_);
  give(kind_.adds, Role::kNewV, "v_new", v_new_);
  give(rotates, Role::kCos, "cos", cos_);
  give(rotates, Role::kSin, "sin", sin_);
  give(kind_.own_rotary, Role::kRotaryStarts, "rotary_starts", rotary_starts_);
  give(kind_.batch_idx, Role::kBatchIdx, "rows", rows_);
  give(kind_.leftpad, Role::kLeftpad, "leftpad", leftpad_);
  call_.stream = memory->stream();
  return status;
}

Status AppendCase::launch(const LoadedProgram& program) const {
  const Nothing then;
  return program.run({.stream = call_.stream, .attention = &call_, .then = &then});
}

Status AppendCase::run(const LoadedProgram& program, TrialMemory* memory) {
  const Attending then(this, memory);
  Status status = program.run({.stream = call_.stream, .attention = &call_, .then = &then});
  if (!status.ok() || then.ran()) return status;
  return {Code::kInternal, "nothing attended after the append, expected one call"};
}

Status AppendCase::read(const Call& attended, TrialMemory* memory) {
  attended_ = {};
  attended_.call = attended;
  const std::size_t batch = at(sizes_.batch);
  Status status;
  const auto fetch = [&](const void* from, std::size_t count, auto* numbers) {
    if (from != nullptr && status.ok()) status = get(from, count, memory, numbers);
  };
  fetch(attended.at(Role::kKvLengths), batch, &attended_.lengths);
  fetch(attended.at(Role::kKStarts), batch, &attended_.starts);
  fetch(attended.v_starts, batch, &attended_.value_starts);
  fetch(attended.at(Role::kPageTable), batch * at(attended.strides(Role::kPageTable).batch), &attended_.table);
  const bool copied = attended.at(Role::kQ) != call_.at(Role::kQ);
  fetch(attended.at(Role::kQ), copied ? tokens() * at(sizes_.q_heads * sizes_.head_dim) : q_.size(), &attended_.q);
  fetch(call_.at(Role::kK), k_.size(), &attended_.k);
  fetch(call_.at(Role::kV), v_.size(), &attended_.v);
  return status;
}

// ---- what it must leave

int AppendCase::added_to(int sequence) const {
  return std::min(counts_[at(sequence)], sizes_.most - lengths_[at(sequence)]);
}
int AppendCase::keys_of(int sequence) const {
  return lengths_[at(sequence)] - leftpad_[at(sequence)] + added_to(sequence);
}

// Elements of k, or of v, before such a slot of a sequence.
std::int64_t AppendCase::slot(int sequence, int slot, int dim) const {
  std::int64_t row = rows_[at(sequence)], in_row = slot;
  if (kind_.page > 0) {
    row = table_[at(row * table_width() + slot / kind_.page)];
    in_row = slot % kind_.page;
  }
  return (row * rows_between(dim) + in_row) * static_cast<std::int64_t>(row_size(kind_.cache, sizes_.kv_heads, dim));
}

// The same of a key, as attention finds it; -1: nowhere.
std::int64_t AppendCase::attended_slot(int sequence, int key, bool values) const {
  const Call& call = attended_.call;
  const Strides& s = call.strides(values ? Role::kV : Role::kK);
  if (call.problem.paged()) {
    const std::int64_t column = key / call.problem.page;
    if (column >= call.strides(Role::kPageTable).batch) return -1;
    const std::int64_t entry = attended_.table[at(sequence * call.strides(Role::kPageTable).batch + column)];
    return entry * s.batch + key % call.problem.page * s.row;
  }
  const std::vector<std::int32_t>& starts =
      values && !attended_.value_starts.empty() ? attended_.value_starts : attended_.starts;
  return starts.empty() ? sequence * s.batch + key * s.row : (starts[at(sequence)] + std::int64_t{key}) * s.row;
}

int AppendCase::position(int sequence, int token) const {
  const std::vector<std::int32_t>& first = kind_.own_rotary ? rotary_starts_ : lengths_;
  return first[at(sequence)] + token;
}

// In float64; the pair's partner is found from the element.
AppendCase::Rotated AppendCase::rotated(const std::uint16_t* row, int element, int position) const {
  const auto number = [&](std::uint16_t bits) { return double{load(kind_.type, bits)}; };
  if (element >= kind_.rotary_dim) {
    const double value = number(row[element]);
    return {value, std::fabs(value) * kCopied + least(kind_.type) / 2};
  }
  const int half = kind_.rotary_dim / 2;
  const bool second = kind_.interleaved ? element % 2 == 1 : element >= half;
  const int pair = kind_.interleaved ? element / 2 : element % half;
  const int other = kind_.interleaved ? element ^ 1 : (element + half) % kind_.rotary_dim;
  const std::int64_t angle = std::min(position, sizes_.positions - 1);
  const double own = number(row[element]) * number(cos_[at(angle * call_.strides(Role::kCos).row + pair)]);
  const double others = number(row[other]) * number(sin_[at(angle * call_.strides(Role::kSin).row + pair)]);
  const double value = second ? own + others : own - others;
  return {value, 1.01 * std::fabs(value) * last_place(kind_.type) + kFloatSlop * (std::fabs(own) + std::fabs(others)) +
                     least(kind_.type)};
}

void AppendCase::expect_rows(int sequence, Expected* k, Expected* v) const {
  for (int token = 0; token < added_to(sequence); ++token) {
    const int to = lengths_[at(sequence)] + token;
    const std::size_t from = at(first_token(sequence) + token);
    const auto give = [&](const Bits& fresh, int dim, bool is_key, Expected* expected) {
      const Strides in_cache = strides(kind_.cache, 0, sizes_.kv_heads, dim);
      for (int head = 0; head < sizes_.kv_heads; ++head) {
        const std::uint16_t* row =
            fresh.data() + from * row_size(kind_.given, sizes_.kv_heads, dim) + at(head * (dim + kind_.given.head));
        for (int d = 0; d < dim; ++d) {
          const std::size_t element = at(slot(sequence, to, dim) + head * in_cache.head + d);
          const double value = double{load(kind_.type, row[d])};
          const Rotated one = is_key ? rotated(row, d, position(sequence, token))
                                     : Rotated{value, std::fabs(value) * kCopied + least(kind_.type) / 2};
          expected->values[element] = one.value;
          expected->bounds[element] = one.bound;
        }
      }
    };
    give(k_new_, sizes_.head_dim, true, k);
    give(v_new_, sizes_.head_dim_v, false, v);
  }
}

// ---- how the two compare

Measured AppendCase::measured_lists() const {
  for (int b = 0; b < sizes_.batch; ++b) {
    const std::string of = " of sequence " + std::to_string(b);
    if (attended_.lengths[at(b)] != keys_of(b))
      return wrong("lengths", "keys" + of + " are " + std::to_string(attended_.lengths[at(b)]) + ", expected " +
                                  std::to_string(keys_of(b)));
    for (int key = 0; key < keys_of(b); ++key)
      for (const bool values : {false, true}) {
        const std::int64_t found = attended_slot(b, key, values);
        const std::int64_t expected = slot(b, leftpad_[at(b)] + key, values ? sizes_.head_dim_v : sizes_.head_dim);
        if (found == expected) continue;
        return wrong(values ? "v" : "k", "attention finds key " + std::to_string(key) + of + " at element " +
                                             std::to_string(found) + ", expected " + std::to_string(expected));
      }
  }
  Measured right;
  right.output = "lengths";
  return right;
}

Measured AppendCase::measured_tensor(const char* name, const Bits& before, const Bits& after,
                                     const Expected& expected) const {
  Measured measured;
  measured.output = name;
  Share worst = {ErrorKind::kElement, "element 0", 0, 1};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string element = "element ";
    if (std::isnan(expected.values[i])) {
      if (after[i] == before[i] || !measured.stray.empty()) continue;
      measured.stray = element + std::to_string(i) + " was written, where no new key goes";
      continue;
    }
    const double found = double{load(kind_.type, after[i])};
    if (!std::isfinite(found)) {
      if (measured.other_kind.empty())
        measured.other_kind = element + std::to_string(i) + " is " + std::to_string(found) + ", expected " +
                              std::to_string(expected.values[i]);
      continue;
    }
    const double error = std::fabs(found - expected.values[i]);
    if (error == 0 || error / expected.bounds[i] <= worst.error) continue;
    worst.error = error / expected.bounds[i];
    worst.where = element + std::to_string(i);
  }
  measured.errors = {std::move(worst)};
  return measured;
}

Measured AppendCase::measured_queries() const {
  if (attended_.call.appends()) return wrong("q", "attention is handed new keys, expected none");
  const bool copied = attended_.call.at(Role::kQ) != call_.at(Role::kQ);
  if (copied != (kind_.rotary_dim > 0))
    return wrong("q", copied ? "queries are copied, expected them as they were given" : "queries are not rotated");
  const Bits& before = copied ? attended_.q : q_;  // what a copy holds elsewhere is nobody's
  Expected expected(before.size());
  const Strides& s = attended_.call.strides(Role::kQ);
  for (int b = 0; copied && b < sizes_.batch; ++b)
    for (int i = 0; i < (kind_.packed ? counts_[at(b)] : sizes_.queries); ++i)
      for (int head = 0; head < sizes_.q_heads; ++head)
        for (int d = 0; d < sizes_.head_dim; ++d) {
          const std::uint16_t* from = q_.data() +
                                      at(first_token(b) + i) * row_size(kind_.given, sizes_.q_heads, sizes_.head_dim) +
                                      at(head * (sizes_.head_dim + kind_.given.head));
          const std::int64_t row = kind_.packed ? (first_token(b) + i) * s.row : b * s.batch + i * s.row;
          const Rotated one = rotated(from, d, position(b, kind_.advances ? i : 0));
          expected.values[at(row + head * s.head + d)] = one.value;
          expected.bounds[at(row + head * s.head + d)] = one.bound;
        }
  return measured_tensor("q", before, attended_.q, expected);
}

std::vector<Measured> AppendCase::measured() const {
  Expected k(k_.size()), v(v_.size());
  for (int b = 0; b < sizes_.batch; ++b) expect_rows(b, &k, &v);
  return {measured_lists(), measured_tensor("k", k_, attended_.k, k), measured_tensor("v", v_, attended_.v, v),
          measured_queries()};
}

}  // namespace gqa

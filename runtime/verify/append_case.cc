// append_case.cc: see append_case.h.
#include "runtime/verify/append_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/verify/tensor_bytes.h"

namespace gqa {
namespace {

constexpr ElementType kF16 = ElementType::kF16, kBF16 = ElementType::kBF16, kF32 = ElementType::kF32;
constexpr int kMostPairs = 32;     // of a rotation
constexpr std::byte kNaN{0xff};    // of all types, all bytes of one
constexpr int kManyQueries = 830;  // of each sequence: more than kManyRows of append_plan.cc in all

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
    {.type = kF32, .rotary_dim = 32, .advances = true},
    {.type = kF32, .page = 16, .rotary_dim = 64, .interleaved = true, .advances = true, .batch_idx = true},
    {.type = kF32, .rotary_dim = 24, .packed = true, .leftpad = true, .given = {1, 0}},
    {.type = kF32, .page = 7, .many_rows = true},
};
// clang-format on

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
  leftpad_ = kind.leftpad ? std::vector<std::int32_t>{4, 0, 0, 39, 10} : std::vector<std::int32_t>(nth(sizes_.batch));
  counts_ = std::vector<std::int32_t>(nth(sizes_.batch), kind.adds ? sizes_.queries : 0);
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
  return nth(heads * (dim + gaps.head) + gaps.row);
}

Strides AppendCase::strides(const AppendGaps& gaps, std::int64_t rows, int heads, int dim) const {
  const auto row = static_cast<std::int64_t>(row_size(gaps, heads, dim));
  return {rows * row, row, dim + gaps.head};
}

// From a row of the cache, or a page, to the next: slots of keys, or of values, as the dimension tells them.
int AppendCase::rows_between(int dim) const {
  return kind_.page > 0 ? kind_.page : sizes_.most + (kind_.values_apart && dim == sizes_.head_dim_v ? 3 : 0);
}

std::size_t AppendCase::tokens() const { return nth(kind_.packed ? starts_.back() : sizes_.batch * sizes_.queries); }
int AppendCase::first_token(int sequence) const {
  return kind_.packed ? starts_[nth(sequence)] : sequence * sizes_.queries;
}

AppendCase::Elements AppendCase::normal(std::size_t count) {
  std::normal_distribution<float> distribution;
  Elements made(count * element());
  for (std::size_t i = 0; i < count; ++i) store_element(kind_.type, distribution(random_), &made[i * element()]);
  return made;
}

void AppendCase::make_tensors() {
  q_ = normal(tokens() * row_size(kind_.given, sizes_.q_heads, sizes_.head_dim));
  k_new_ = normal(tokens() * row_size(kind_.given, sizes_.kv_heads, sizes_.head_dim));
  v_new_ = normal(tokens() * row_size(kind_.given, sizes_.kv_heads, sizes_.head_dim_v));
  cos_ = normal(nth(sizes_.positions * (kMostPairs + kind_.cos_gap)));
  sin_ = normal(nth(sizes_.positions * (kMostPairs + kind_.sin_gap)));
  if (kind_.page > 0) {
    const int used = sizes_.cache_rows * table_width();
    pages_ = used + 1;
    while (std::gcd(3, pages_) != 1) ++pages_;
    for (int i = 0; i < used; ++i) table_.push_back((i * 3 + 1) % pages_);
  }
  const int rows = kind_.page > 0 ? pages_ : sizes_.cache_rows;
  const auto slots = [&](int dim) {
    return nth(rows) * nth(rows_between(dim)) * row_size(kind_.cache, sizes_.kv_heads, dim) * element();
  };
  k_.assign(slots(sizes_.head_dim), kNaN);
  v_.assign(slots(sizes_.head_dim_v), kNaN);
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
  const std::size_t batch = nth(sizes_.batch);
  Status status;
  const auto fetch = [&](const void* from, std::size_t count, auto* numbers) {
    if (from != nullptr && status.ok()) status = get(from, count, memory, numbers);
  };
  fetch(attended.at(Role::kKvLengths), batch, &attended_.lengths);
  fetch(attended.at(Role::kKStarts), batch, &attended_.starts);
  fetch(attended.v_starts, batch, &attended_.value_starts);
  fetch(attended.at(Role::kPageTable), batch * nth(attended.strides(Role::kPageTable).batch), &attended_.table);
  const bool copied = attended.at(Role::kQ) != call_.at(Role::kQ);
  fetch(attended.at(Role::kQ), copied ? tokens() * nth(sizes_.q_heads * sizes_.head_dim) * element() : q_.size(),
        &attended_.q);
  fetch(call_.at(Role::kK), k_.size(), &attended_.k);
  fetch(call_.at(Role::kV), v_.size(), &attended_.v);
  return status;
}

}  // namespace gqa

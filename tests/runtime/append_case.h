// append_case.h: calls that append, for tests: caches with NaN wherever no key is, and what each slot must hold then.
// Owns: the case's tensors and lists, and its reference, which shares no rule with append_params.h.
// Never: attends.
// Threads: values.
#pragma once

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/call/append_plan.h"
#include "runtime/half.h"

namespace gqa::test {

// Elements that belong to nobody, after each head and after each row's heads.
struct AppendGaps {
  int head = 0, row = 0;
};

struct AppendKind {
  DType type = DType::kF16;
  int page = 0;
  int rotary_dim = 0;
  bool interleaved = false, advances = false;
  bool packed = false;  // queries and new keys
  bool batch_idx = false, leftpad = false;
  bool own_rotary = false;            // rotary_seqlens
  bool adds = true;                   // new keys
  AppendGaps given = {}, cache = {};  // of q, k_new and v_new; of k and v
  int cos_gap = 0, sin_gap = 0;       // after each of their rows

  bool whole_rows = false;    // with batch_idx: a dense cache whose rows are taken as pages
  bool values_apart = false;  // where starts(): rows of values are further apart than those of keys

  bool starts() const { return page == 0 && !whole_rows && (batch_idx || leftpad); }
  bool table() const { return whole_rows || (page > 0 && (batch_idx || leftpad)); }
};

inline std::vector<AppendKind> append_kinds() {
  constexpr DType kF16 = DType::kF16, kBF16 = DType::kBF16;
  return {{kF16},
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
          {.batch_idx = true, .leftpad = true, .values_apart = true}};
}

class AppendCase {
 public:
  static constexpr int kBatch = 5, kMost = 40, kQueries = 3, kNew = 3, kDim = 64, kDimV = 32;
  static constexpr int kQHeads = 10, kKvHeads = 5;  // not whole groups of those that a warp takes
  static constexpr int kCacheRows = 7, kPositions = 48, kMostPairs = 32;

  explicit AppendCase(const AppendKind& given) : kind(given), random_(3) {
    lengths = {20, 0, kMost, kMost - 1, 13};  // no room for the third, for one key of the fourth
    rows = kind.batch_idx ? std::vector<int>{6, 0, 3, 4, 1} : std::vector<int>{0, 1, 2, 3, 4};
    leftpad = kind.leftpad ? std::vector<int>{4, 0, 0, 39, 10} : std::vector<int>(kBatch, 0);
    counts = !kind.adds    ? std::vector<int>(kBatch, 0)
             : kind.packed ? std::vector<int>{3, 1, 2, 0, 2}
                           : std::vector<int>(kBatch, kNew);
    rotary_starts = {2, 44, 0, 7, 47};
    starts = {0};
    for (const int count : counts) starts.push_back(starts.back() + count);
    make_tensors();
    make_call();
  }

  // What slot `slot` of a sequence is in k or v.
  std::size_t slot(int sequence, int at, int head, int dim) const {
    const std::size_t row = kind.page > 0
                                ? static_cast<std::size_t>(table[rows[sequence] * table_width() + at / kind.page])
                                : static_cast<std::size_t>(rows[sequence]);
    const std::size_t in_row = kind.page > 0 ? at % kind.page : at;
    return (row * rows_between(dim) + in_row) * row_size(kind.cache, kKvHeads, dim) + head * (dim + kind.cache.head);
  }
  // From a row of the cache, or a page, to the next: slots of keys, or of values, as the dimension tells them.
  int rows_between(int dim) const {
    return kind.page > 0 ? kind.page : kMost + (kind.values_apart && dim == kDimV ? 3 : 0);
  }
  static std::size_t row_size(const AppendGaps& gaps, int heads, int dim) {
    return static_cast<std::size_t>(heads * (dim + gaps.head) + gaps.row);
  }
  static Strides strides(const AppendGaps& gaps, std::int64_t rows, int heads, int dim) {
    const auto row = static_cast<std::int64_t>(row_size(gaps, heads, dim));
    return {rows * row, row, dim + gaps.head};
  }
  std::size_t tokens() const { return kind.packed ? static_cast<std::size_t>(starts.back()) : kBatch * kQueries; }
  std::size_t rotated_size() const { return tokens() * kQHeads * kDim; }  // of the copy of q, which has no gaps
  int table_width() const { return (kMost + kind.page - 1) / kind.page; }
  int queries_of(int sequence) const { return kind.packed ? counts[sequence] : kQueries; }
  std::size_t first_query(int sequence) const { return kind.packed ? starts[sequence] : sequence * kQueries; }
  std::size_t first_new(int sequence) const { return kind.packed ? starts[sequence] : sequence * kNew; }

  // "" where k, v, the rotated queries and the lists are as they must be.
  std::string wrong(const std::vector<std::uint16_t>& now_k, const std::vector<std::uint16_t>& now_v,
                    const std::uint16_t* rotated, const int* out_lengths, const int* out_starts,
                    const int* out_value_starts, const int* out_table) const {
    std::vector<std::uint16_t> want_k = k, want_v = v;
    for (int b = 0; b < kBatch; ++b) {
      int added = 0;
      for (; added < counts[b] && lengths[b] + added < kMost; ++added)
        for (int h = 0; h < kKvHeads; ++h) append(b, added, h, &want_k, &want_v);
      if (out_lengths[b] != lengths[b] - leftpad[b] + added) return "length of sequence " + std::to_string(b);
      if (kind.starts() && out_starts[b] != rows[b] * kMost + leftpad[b]) return "start of " + std::to_string(b);
      if (kind.values_apart && out_value_starts[b] != rows[b] * rows_between(kDimV) + leftpad[b])
        return "start of the values of " + std::to_string(b);
      if (kind.table() && !right_table(b, out_lengths[b], out_table)) return "table of " + std::to_string(b);
    }
    if (const std::string at = difference(now_k, want_k); !at.empty()) return "k" + at;
    if (const std::string at = difference(now_v, want_v); !at.empty()) return "v" + at;
    return kind.rotary_dim > 0 ? wrong_queries(rotated) : "";
  }

  // Of a table that is made: a column a page, or a key where there is padding.
  int out_page() const { return kind.whole_rows ? kMost : kind.leftpad ? 1 : kind.page; }
  int out_columns() const { return (kMost + out_page() - 1) / out_page(); }

  AppendKind kind;
  std::vector<std::uint16_t> q, k, v, k_new, v_new, cos, sin;
  std::vector<int> lengths, rows, leftpad, counts, starts, rotary_starts, table;
  Call call;

 private:
  std::vector<std::uint16_t> normal(std::size_t count) {
    std::normal_distribution<float> distribution;
    std::vector<std::uint16_t> made(count);
    for (std::uint16_t& each : made) each = store(kind.type, distribution(random_));
    return made;
  }

  void make_tensors() {
    q = normal(tokens() * row_size(kind.given, kQHeads, kDim));
    k_new = normal(tokens() * row_size(kind.given, kKvHeads, kDim));
    v_new = normal(tokens() * row_size(kind.given, kKvHeads, kDimV));
    cos = normal(static_cast<std::size_t>(kPositions * (kMostPairs + kind.cos_gap)));
    sin = normal(static_cast<std::size_t>(kPositions * (kMostPairs + kind.sin_gap)));
    int pages = 0;
    if (kind.page > 0) {
      pages = kCacheRows * table_width() + 1;
      while (std::gcd(3, pages) != 1) ++pages;
      for (int i = 0; i < kCacheRows * table_width(); ++i) table.push_back((i * 3 + 1) % pages);
    }
    const std::size_t cache_rows = kind.page > 0 ? pages : kCacheRows;
    const std::uint16_t nan = store(kind.type, NAN);
    k.assign(cache_rows * rows_between(kDim) * row_size(kind.cache, kKvHeads, kDim), nan);
    v.assign(cache_rows * rows_between(kDimV) * row_size(kind.cache, kKvHeads, kDimV), nan);
    page_count = pages;
  }

  void make_call() {
    Problem& p = call.problem;
    p.set_types(kind.type);
    p.batch = kBatch;
    p.q_len = kQueries;
    p.kv_len = kMost;
    p.q_heads = kQHeads;
    p.kv_heads = kKvHeads;
    p.head_dim = kDim;
    p.head_dim_v = kDimV;
    p.page = kind.page > 0 || kind.whole_rows ? out_page() : 0;
    p.keys = p.page > 0 ? KeyLayout::kPaged : KeyLayout::kDense;
    p.q_lengths = kind.packed ? Lengths::kPacked : Lengths::kOne;
    p.kv_lengths = kind.starts() ? Lengths::kPacked : Lengths::kEach;
    const std::int64_t batch = kind.packed ? 0 : 1;
    call.strides(Role::kQ) = strides(kind.given, batch * kQueries, kQHeads, kDim);
    call.strides(Role::kK) = strides(kind.cache, rows_between(kDim), kKvHeads, kDim);
    call.strides(Role::kV) = strides(kind.cache, rows_between(kDimV), kKvHeads, kDimV);
    call.q_rows = static_cast<std::int64_t>(tokens());
    call.pages = page_count;
    call.strides(Role::kPageTable).batch = kind.page > 0 ? table_width() : 0;
    call.strides(Role::kNewK) = strides(kind.given, batch * kNew, kKvHeads, kDim);
    call.strides(Role::kNewV) = strides(kind.given, batch * kNew, kKvHeads, kDimV);
    call.append.rows = kind.adds ? static_cast<int>(call.q_rows) : 0;
    call.append.count = kind.packed ? 0 : kNew;
    call.strides(Role::kCos).row = kMostPairs + kind.cos_gap;
    call.strides(Role::kSin).row = kMostPairs + kind.sin_gap;
    call.append.rotary_dim = kind.rotary_dim;
    call.append.rotary_len = kPositions;
    call.append.interleaved = kind.interleaved;
    call.append.advances = kind.advances;
    call.append.k_batch_stride = call.strides(Role::kK).batch;
    call.append.v_batch_stride = call.strides(Role::kV).batch;
    call.append.cache_batch = kCacheRows;
    call.append.cache_batch_rows = rows_between(kDim);
    call.append.cache_batch_values = rows_between(kDimV);
    call.append.page = kind.whole_rows ? kMost : kind.page;
    call.append.pages = kind.whole_rows ? kCacheRows : page_count;
    if (kind.starts()) call.strides(Role::kK).batch = call.strides(Role::kV).batch = 0;
  }

  bool right_table(int b, int keys, const int* made) const {
    if (kind.whole_rows) return made[b] == rows[b];
    for (int key = 0; key < keys; ++key) {
      const int slot = leftpad[b] + key, page = table[rows[b] * table_width() + slot / kind.page];
      const int entry = kind.leftpad ? page * kind.page + slot % kind.page : page;
      if (made[b * out_columns() + key / out_page()] != entry) return false;
    }
    return true;
  }

  int rotary_start(int sequence) const { return kind.own_rotary ? rotary_starts[sequence] : lengths[sequence]; }

  // In float64; the pair's partner is found from the element.
  std::uint16_t rotated(const std::uint16_t* row, int element, int position) const {
    const int half = kind.rotary_dim / 2;
    if (element >= kind.rotary_dim) return row[element];
    const bool second = kind.interleaved ? element % 2 == 1 : element >= half;
    const int pair = kind.interleaved ? element / 2 : element % half;
    const int other = kind.interleaved ? element ^ 1 : (element + half) % kind.rotary_dim;
    const std::int64_t angle = std::min(position, kPositions - 1);
    const double x = load(kind.type, row[element]), y = load(kind.type, row[other]);
    const double c = load(kind.type, cos[static_cast<std::size_t>(angle * call.strides(Role::kCos).row + pair)]);
    const double s = load(kind.type, sin[static_cast<std::size_t>(angle * call.strides(Role::kSin).row + pair)]);
    return store(kind.type, static_cast<float>(second ? x * c + y * s : x * c - y * s));
  }

  void append(int b, int i, int head, std::vector<std::uint16_t>* to_k, std::vector<std::uint16_t>* to_v) const {
    const std::size_t token = first_new(b) + i;
    const std::uint16_t* key =
        k_new.data() + token * row_size(kind.given, kKvHeads, kDim) + head * (kDim + kind.given.head);
    const std::uint16_t* value =
        v_new.data() + token * row_size(kind.given, kKvHeads, kDimV) + head * (kDimV + kind.given.head);
    for (int d = 0; d < kDim; ++d)
      (*to_k)[slot(b, lengths[b] + i, head, kDim) + d] = rotated(key, d, rotary_start(b) + i);
    for (int d = 0; d < kDimV; ++d) (*to_v)[slot(b, lengths[b] + i, head, kDimV) + d] = value[d];
  }

  std::string wrong_queries(const std::uint16_t* copy) const {
    for (int b = 0; b < kBatch; ++b)
      for (int i = 0; i < queries_of(b); ++i)
        for (int h = 0; h < kQHeads; ++h)
          for (int d = 0; d < kDim; ++d) {
            const std::size_t token = first_query(b) + i;
            const std::uint16_t* from =
                q.data() + token * row_size(kind.given, kQHeads, kDim) + h * (kDim + kind.given.head);
            const int position = rotary_start(b) + (kind.advances ? i : 0);
            if (!near(copy[(token * kQHeads + h) * kDim + d], rotated(from, d, position)))
              return "query " + std::to_string(i) + " of sequence " + std::to_string(b);
          }
    return "";
  }

  // Bits but for the last place of what was rotated.
  bool near(std::uint16_t a, std::uint16_t b) const {
    if (a == b) return true;
    const float x = load(kind.type, a), y = load(kind.type, b);
    return std::abs(x - y) <= std::abs(y) * (kind.type == DType::kBF16 ? 0x1p-7F : 0x1p-10F) + 1e-6F;
  }
  std::string difference(const std::vector<std::uint16_t>& now, const std::vector<std::uint16_t>& want) const {
    for (std::size_t at = 0; at < want.size(); ++at)
      if (!near(now[at], want[at])) return "[" + std::to_string(at) + "]";
    return "";
  }

  int page_count = 0;
  std::mt19937 random_;
};

}  // namespace gqa::test

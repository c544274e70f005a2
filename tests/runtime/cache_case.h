// cache_case.h: a call on a key/value cache in host memory, and what its answer must be.
// Owns: keys and values of each sequence as they are meant; the cache made of them: dense, packed, or in pages that are
// out of order and shared, with NaN in every slot that no sequence uses and numbers out of range in every table entry
// past a length; the naive loop over what was meant, which sees neither pages nor lists.
// Never: knows a device; shares code with what it judges. Threads: a value that is not copied: Call points into it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/element.h"
#include "tests/runtime/chain_arrays_case.h"
#include "tests/runtime/plain_attention.h"

namespace gqa::test {

// The lengths of packed sequences.
struct Packing {
  std::vector<std::int32_t> queries;  // of each sequence
  // Rows after each sequence's that are nobody's. Where there are some, the call says how many rows are used.
  int gap = 0;
  // 0, 1: k and v of even, or of odd sequences are NaN, and only the others are judged.
  int blind = -1;
  int beyond = 0;             // the call says that so many more rows are used than there are
  bool in_slots = false;      // packed keys are slots of a cache: the last sequence's come first
  bool values_apart = false;  // with in_slots: values are further apart than keys
};

class CacheCase {
 public:
  // `text` as a problem; `lengths` of each sequence, empty: kv_len each, and none are handed over. Sequences that have
  // a first page whole take it from the one before, every other one.
  CacheCase(const std::string& text, std::vector<std::int32_t> given_lengths, bool heads_first = false,
            Packing given_packing = {})
      : lengths(std::move(given_lengths)), packing(std::move(given_packing)) {
    const Status status = parse(text, &call.problem);
    EXPECT_TRUE(status.ok()) << text << ": " << status.message();
    const Problem& p = call.problem;
    EXPECT_EQ(lengths.empty(), !p.lengths_differ());
    EXPECT_EQ(packing.queries.empty(), !p.q_packed());
    if (p.q_packed()) q_starts = starts_of(packing.queries);
    if (p.k_packed()) k_starts = packing.in_slots ? slots_of(lengths, packing.gap) : starts_of(lengths);
    if (packing.values_apart) v_starts = slots_of(lengths, packing.gap + 5);
    fill(&q, query_rows() * p.q_heads * p.head_dim);
    fill(&meant_k_, std::int64_t{p.batch} * p.kv_len * p.kv_heads * p.head_dim);
    fill(&meant_v_, std::int64_t{p.batch} * p.kv_len * p.kv_heads * p.head_dim_v);
    if (p.paged()) make_table();
    lay(meant_k_, k_starts, p.head_dim, heads_first, &k, &call.strides(Role::kK));
    lay(meant_v_, packing.values_apart ? v_starts : k_starts, p.head_dim_v, heads_first, &v, &call.strides(Role::kV));
    out.assign(static_cast<std::size_t>(query_rows() * p.q_heads * p.head_dim_v), 0xffff);
    lse.assign(static_cast<std::size_t>(query_rows() * p.q_heads), NAN);
    point();
  }
  CacheCase(const CacheCase&) = delete;
  CacheCase& operator=(const CacheCase&) = delete;

  int length(int sequence) const {
    const int most = call.problem.kv_len;
    return lengths.empty() ? most : std::clamp(lengths[static_cast<std::size_t>(sequence)], 0, most);
  }

  int queries(int sequence) const {
    const int most = call.problem.q_len;
    return packing.queries.empty() ? most : std::clamp(packing.queries[static_cast<std::size_t>(sequence)], 0, most);
  }
  // Rows of q and out, all sequences'.
  std::int64_t query_rows() const {
    return q_starts.empty() ? std::int64_t{call.problem.batch} * call.problem.q_len : q_starts.back();
  }

  // The first element that is off by more than roundings allow, or written beside the sequences' rows; out and lse.
  ::testing::AssertionResult right() const {
    const Problem& p = call.problem;
    std::vector<double> expected(static_cast<std::size_t>(p.head_dim_v));
    std::vector<bool> nobodys(static_cast<std::size_t>(query_rows()), true);
    for (int b = 0; b < p.batch; ++b)
      for (int h = 0; h < p.q_heads; ++h)
        for (int i = 0; i < queries(b); ++i) {
          nobodys[static_cast<std::size_t>(query_row(b, i))] = false;
          if (b % 2 == packing.blind) continue;
          const float given_sum = lse[lse_at(query_row(b, i), h)];
          const double sum = naive(b, h, i, &expected);
          if (call.has(Role::kLse) && given_sum != sum &&
              !(std::fabs(double{given_sum} - sum) < 1e-4 * (1 + std::fabs(sum))))
            return wrong(b, h, i) << "lse is " << given_sum << ", expected " << sum;
          for (int d = 0; d < p.head_dim_v; ++d) {
            const double given = load(p.q_type, out_at(b, i, h, d)), wanted = expected[static_cast<std::size_t>(d)];
            const double relative = p.q_type == ElementType::kBF16 ? 1.0 / 128 : 1.0 / 1024;
            if (!(std::fabs(given - wanted) <= relative * (1 + std::fabs(wanted)) / 2))
              return wrong(b, h, i) << "out[" << d << "] is " << given << ", expected " << wanted;
          }
        }
    return untouched(nobodys);
  }

  std::vector<std::uint16_t> q, k, v, out;
  std::vector<float> lse, sink;
  ChainArraysCase arrays;
  std::vector<std::int32_t> lengths, table, q_starts, k_starts, v_starts;
  std::vector<std::int32_t> said_keys, said_queries;  // what the call says of how many are used
  Packing packing;
  int pages = 0, table_stride = 0;
  Call call;

 private:
  static constexpr int kSparePages = 3;  // that nobody refers to

  void fill(std::vector<std::uint16_t>* data, std::int64_t count) {
    std::normal_distribution<float> normal(0, 1);
    data->resize(static_cast<std::size_t>(count));
    for (std::uint16_t& bits : *data) bits = store(call.problem.q_type, normal(random_));
  }

  // Every other sequence begins with the first page of the one before, if both fill it: then the same keys are meant.
  void make_table() {
    const Problem& p = call.problem;
    const int width = (p.kv_len + p.page - 1) / p.page;
    table_stride = width + 1;
    table.resize(static_cast<std::size_t>(p.batch * table_stride));
    for (std::size_t at = 0; at < table.size(); ++at)
      table[at] = at % 2 == 0 ? std::numeric_limits<std::int32_t>::max() : -1 - static_cast<std::int32_t>(at);
    pages = p.batch * width + kSparePages;
    std::vector<std::int32_t> free(static_cast<std::size_t>(pages - 1));
    std::iota(free.begin(), free.end(), 1);  // page 0, which kernels fall back to, is nobody's
    std::shuffle(free.begin(), free.end(), random_);
    for (int b = 0; b < p.batch; ++b) {
      for (int i = 0; i * p.page < length(b); ++i, free.pop_back())
        table[static_cast<std::size_t>(b * table_stride + i)] = free.back();
      if (b % 2 == 1 && std::min(length(b - 1), length(b)) >= p.page) share_first_page(b);
    }
  }

  void share_first_page(int b) {
    const Problem& p = call.problem;
    table[static_cast<std::size_t>(b * table_stride)] = table[static_cast<std::size_t>((b - 1) * table_stride)];
    for (int dim : {0, 1}) {
      std::vector<std::uint16_t>& meant = dim == 0 ? meant_k_ : meant_v_;
      const std::int64_t row = std::int64_t{p.kv_heads} * (dim == 0 ? p.head_dim : p.head_dim_v);
      const auto from = meant.begin() + (b - 1) * p.kv_len * row, to = meant.begin() + b * p.kv_len * row;
      std::copy_n(from, p.page * row, to);
    }
  }

  // The cache of what is meant: all NaN but the keys that a sequence has.
  void lay(const std::vector<std::uint16_t>& meant, const std::vector<std::int32_t>& starts, int dim, bool heads_first,
           std::vector<std::uint16_t>* cache, Strides* s) const {
    const Problem& p = call.problem;
    const std::int64_t slabs = p.paged() ? pages : p.k_packed() ? 1 : p.batch, heads = p.kv_heads;
    const std::int64_t rows = p.paged() ? p.page : p.k_packed() ? starts.back() : p.kv_len;
    *s = heads_first ? Strides{rows * heads * dim, dim, rows * dim} : Strides{rows * heads * dim, heads * dim, dim};
    cache->assign(static_cast<std::size_t>(slabs * rows * heads * dim), 0xffff);
    for (int b = 0; b < p.batch; ++b)
      for (int j = 0; j < length(b) && b % 2 != packing.blind; ++j)
        for (int h = 0; h < p.kv_heads; ++h) {
          const auto [slab, slot] = place_of(starts, b, j);
          std::copy_n(meant.begin() + meant_at(b, j, h, dim), dim,
                      cache->begin() + slab * s->batch + slot * s->row + h * s->head);
        }
  }

  std::pair<std::int64_t, std::int64_t> place_of(const std::vector<std::int32_t>& starts, int b, int j) const {
    const Problem& p = call.problem;
    if (p.paged()) return {table[static_cast<std::size_t>(b * table_stride + j / p.page)], j % p.page};
    if (p.k_packed()) return {0, starts[static_cast<std::size_t>(b)] + j};
    return {b, j};
  }

  std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& rows) const {
    std::vector<std::int32_t> starts = {0};
    for (const std::int32_t count : rows) starts.push_back(starts.back() + count + packing.gap);
    return starts;
  }

  // All rows stand at the end of the list, too, where a sequence that is not in a slot would end.
  static std::vector<std::int32_t> slots_of(const std::vector<std::int32_t>& rows, int gap) {
    std::vector<std::int32_t> slots(rows.size() + 1);
    std::int32_t next = 0;
    for (std::size_t at = rows.size(); at-- > 0; next += rows[at] + gap) slots[at] = next;
    slots.back() = next;
    return slots;
  }

  std::vector<std::int32_t> said(std::vector<std::int32_t> used) const {
    for (std::int32_t& rows : used) rows += packing.beyond;
    return used;
  }

  // A row of q and out, from the tensor's first.
  std::int64_t query_row(int b, int i) const {
    return i + (q_starts.empty() ? std::int64_t{b} * call.problem.q_len : q_starts[static_cast<std::size_t>(b)]);
  }
  std::size_t lse_at(std::int64_t row, int h) const {
    const std::int64_t each = q_starts.empty() ? call.problem.q_len : query_rows();  // of a batch
    return static_cast<std::size_t>((row / each * call.problem.q_heads + h) * each + row % each);
  }

  ::testing::AssertionResult untouched(const std::vector<bool>& rows) const {
    const auto row_of_out = static_cast<std::size_t>(call.strides(Role::kOut).row);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!rows[row]) continue;
      for (std::size_t at = row * row_of_out; at < (row + 1) * row_of_out; ++at)
        if (out[at] != 0xffff) return ::testing::AssertionFailure() << "nobody's row " << row << " of out is written";
      for (int h = 0; h < call.problem.q_heads; ++h)
        if (call.has(Role::kLse) && !std::isnan(lse[lse_at(static_cast<std::int64_t>(row), h)]))
          return ::testing::AssertionFailure() << "nobody's row " << row << " of lse is written";
    }
    return ::testing::AssertionSuccess();
  }

  std::int64_t meant_at(int b, int j, int h, int dim) const {
    const Problem& p = call.problem;
    return ((std::int64_t{b} * p.kv_len + j) * p.kv_heads + h) * dim;
  }

  void point() {
    const Problem& p = call.problem;
    call.place(Role::kQ, q.data());
    call.place(Role::kK, k.data());
    call.place(Role::kV, v.data());
    call.place(Role::kOut, out.data());
    call.place(Role::kLse, p.lse ? lse.data() : nullptr);
    const std::int64_t each = p.q_packed() ? 0 : p.q_len;  // rows from a sequence of the batch to the next
    call.strides(Role::kQ) = {each * p.q_heads * p.head_dim, std::int64_t{p.q_heads} * p.head_dim, p.head_dim};
    call.strides(Role::kOut) = {each * p.q_heads * p.head_dim_v, std::int64_t{p.q_heads} * p.head_dim_v, p.head_dim_v};
    if (p.k_packed()) call.strides(Role::kK).batch = call.strides(Role::kV).batch = 0;
    call.strides(Role::kLse).batch = p.q_heads * each;
    call.strides(Role::kLse).head = p.q_packed() ? query_rows() : p.q_len;
    call.strides(Role::kLse).row = 1;
    call.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    call.slots = {1.5F, 0.75F, 2.25F, 0.5F};
    sink.clear();
    for (int head = 0; p.sink && head < p.q_heads; ++head) sink.push_back(3.5F + static_cast<float>(head % 2));
    call.place(Role::kSink, p.sink ? sink.data() : nullptr);
    arrays.make(p, [&](int b, int i, int j) { return j < length(b) && sees(b, i, j); });
    arrays.give(&call);
    const bool says = packing.gap > 0 || packing.beyond > 0 || packing.in_slots;
    said_keys = p.k_packed() ? said(lengths) : lengths;
    said_queries = said(packing.queries);
    call.place(Role::kKvLengths, lengths.empty() || (p.k_packed() && !says) ? nullptr : said_keys.data());
    call.k_in_slots = packing.in_slots;
    call.q_rows = query_rows();
    call.k_rows = k_starts.empty() ? 0 : k_starts.back();
    call.v_rows = v_starts.empty() ? 0 : v_starts.back();
    call.place(Role::kQStarts, q_starts.empty() ? nullptr : q_starts.data());
    call.place(Role::kKStarts, k_starts.empty() ? nullptr : k_starts.data());
    call.v_starts = v_starts.empty() ? nullptr : v_starts.data();
    call.place(Role::kQLengths, p.q_packed() && says ? said_queries.data() : nullptr);
    call.place(Role::kPageTable, table.empty() ? nullptr : table.data());
    call.strides(Role::kPageTable).batch = table_stride;
    call.pages = pages;
  }

  // Whether query i may see key j, word by word.
  bool sees(int b, int i, int j) const {
    const Problem& p = call.problem;
    const int own = length(b) - queries(b) + i;
    if (p.mask == Mask::kCausal) return j <= own;
    if (p.mask == Mask::kNone) return true;
    return (p.window_left < 0 || j >= own - p.window_left) && (p.window_right < 0 || j <= own + p.window_right);
  }

  double naive(int b, int h, int i, std::vector<double>* result) const {
    const Problem& p = call.problem;
    const auto number = [&](const std::vector<std::uint16_t>& data, std::int64_t at) {
      return double{load(p.q_type, data[static_cast<std::size_t>(at)])};
    };
    const std::int64_t query = (query_row(b, i) * p.q_heads + h) * p.head_dim;
    double sum = p.sink ? std::exp(double{sink[static_cast<std::size_t>(h)]}) : 0;
    std::fill(result->begin(), result->end(), 0.0);
    for (int j = 0; j < length(b); ++j) {
      if (!sees(b, i, j)) continue;
      double dot = 0;
      for (int d = 0; d < p.head_dim; ++d)
        dot += number(q, query + d) * number(meant_k_, meant_at(b, j, h / p.group(), p.head_dim) + d);
      const double weight = std::exp(plain::chained(call, {b, h, i, j}, dot * double{call.scale}));
      sum += weight;
      for (int d = 0; d < p.head_dim_v; ++d)
        (*result)[static_cast<std::size_t>(d)] +=
            weight * number(meant_v_, meant_at(b, j, h / p.group(), p.head_dim_v) + d);
    }
    if (sum > 0)
      for (double& each : *result) each /= sum;
    return sum > 0 ? std::log(sum) : -std::numeric_limits<double>::infinity();
  }

  std::uint16_t out_at(int b, int i, int h, int d) const {
    const Problem& p = call.problem;
    return out[static_cast<std::size_t>((query_row(b, i) * p.q_heads + h) * p.head_dim_v + d)];
  }

  ::testing::AssertionResult wrong(int b, int h, int i) const {
    return ::testing::AssertionFailure() << to_text(call.problem) << ", sequence " << b << " of " << length(b)
                                         << " keys, head " << h << ", query " << i << ": ";
  }

  std::mt19937 random_{11};
  std::vector<std::uint16_t> meant_k_, meant_v_;  // (batch, kv_len, kv_heads, dim)
};

}  // namespace gqa::test

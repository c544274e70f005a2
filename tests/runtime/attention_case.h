// attention_case.h: a call on host memory of its own, and what its answer must be.
// Owns: random inputs, poisoned outputs, the comparison of every element with float64.
// Never: knows a device; GPU tests copy its buffers over and back.
// Threads: a value. Copies point at the original's memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/element.h"
#include "runtime/verify/trial_lists.h"
#include "search/families/candidate.h"
#include "tests/runtime/chain_arrays_case.h"
#include "tests/runtime/plain_attention.h"

namespace gqa::test {

// Log-sum-exp is asked for, so that a case of the problem judges it too, unless the text says lse=0.
inline Problem problem_of(const std::string& text) {
  Problem problem;
  const Status status = parse(text.find("lse") == std::string::npos ? text + ",lse" : text, &problem);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return problem;
}

// Numbers about what so many keys' exponentials sum to, another for each head.
inline std::vector<float> sinks_near(int keys, int heads) {
  std::vector<float> sinks;
  for (int head = 0; head < heads; ++head)
    sinks.push_back(std::log(static_cast<float>(keys)) + 1.3F * static_cast<float>(head % 3) - 1);
  return sinks;
}

// A call on memory of its own: random inputs, out and lse poisoned, in one of two layouts. lse is given to the call
// where the problem asks for it.
struct AttentionCase {
  using Words = std::vector<std::uint16_t>;  // an element's bits: one, or of float32 two
  Words q, k, v, out;
  std::vector<float> lse;
  std::vector<float> sink;                        // of each query head; empty where the problem has none
  std::vector<std::int32_t> lengths, page_table;  // of a KV cache; empty where it has none
  ChainArraysCase arrays;                         // of the problem's chain
  Call call;
  double slack;  // absolute: float32's error in scores, which grow with the square of the magnitude; and, where
                 // probabilities are rounded to the dtype, that rounding of values of this magnitude

  explicit AttentionCase(const Problem& p, bool heads_first = false, float magnitude = 1)
      : slack(2e-5 * magnitude * magnitude + magnitude * rounding_of_weights(p.q_type)) {
    const int words = element_bytes(p.q_type) / 2;
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, magnitude);
    const auto make = [&](Words* data, std::int64_t length, std::int64_t heads, std::int64_t dim, std::int64_t blocks) {
      data->resize(static_cast<std::size_t>((blocks * length * heads * dim + 1) * words));
      for (std::size_t at = 0; at < data->size(); at += static_cast<std::size_t>(words))
        store_element(p.q_type, normal(random), reinterpret_cast<std::byte*>(&(*data)[at]));
      return heads_first ? Strides{length * heads * dim, dim, length * dim}
                         : Strides{length * heads * dim, heads * dim, dim};
    };
    const int shift = p.align >= 16 ? 0 : words;
    const std::int64_t key_blocks = p.paged() ? trial_pages(p) : p.batch;
    const std::int64_t keys = p.paged() ? p.page : p.kv_len;
    call.strides(Role::kQ) = make(&q, p.q_len, p.q_heads, p.head_dim, p.batch);
    if (p.keys_transposed()) {  // rows of all keys, each with as many elements as keep the next aligned
      const std::int64_t pitch = p.align >= 16 ? (p.kv_len + 7) / 8 * 8 : p.kv_len;
      make(&k, pitch, p.kv_heads, p.head_dim, p.batch);
      call.strides(Role::kK) = {p.kv_heads * p.head_dim * pitch, pitch, p.head_dim * pitch};
    } else {
      call.strides(Role::kK) = make(&k, keys, p.kv_heads, p.head_dim, key_blocks);
    }
    call.strides(Role::kV) = make(&v, keys, p.kv_heads, p.head_dim_v, key_blocks);
    call.strides(Role::kOut) = make(&out, p.q_len, p.q_heads, p.head_dim_v, p.batch);
    std::fill(out.begin(), out.end(), std::uint16_t{0xffff});
    lse.assign(static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len, NAN);
    call.place(Role::kQ, q.data() + shift);
    call.place(Role::kK, k.data() + shift);
    call.place(Role::kV, v.data() + shift);
    call.place(Role::kOut, out.data() + shift);
    call.place(Role::kLse, p.lse ? lse.data() : nullptr);
    call.strides(Role::kLse).batch = std::int64_t{p.q_heads} * p.q_len;
    call.strides(Role::kLse).head = p.q_len;
    call.strides(Role::kLse).row = 1;
    call.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    call.slots = {1.5F, 0.75F, 2.25F, 0.5F};
    if (p.sink) sink = sinks_near(p.kv_len, p.q_heads);
    call.place(Role::kSink, p.sink ? sink.data() : nullptr);
    call.problem = p;
    if (p.paged() || p.lengths_differ()) add_lists(shift);
    arrays.make(p, [&](int b, int i, int j) {
      const int own = lengths.empty() ? p.kv_len : lengths[static_cast<std::size_t>(b)];
      return j < own && plain::sees(p, i, own, j);
    });
    arrays.give(&call);
  }

  // Lengths and pages at their most unpleasant; what no sequence uses holds NaN.
  void add_lists(int shift) {
    const Problem& p = call.problem;
    const TrialLists lists = verification_lists(p, 3);
    lengths = lists.lengths;
    page_table = lists.table;
    call.place(Role::kKvLengths, lengths.empty() ? nullptr : lengths.data());
    call.place(Role::kPageTable, page_table.empty() ? nullptr : page_table.data());
    call.strides(Role::kPageTable).batch = table_width(p);
    call.pages = trial_pages(p);
    const std::int64_t keys = p.paged() ? p.page : p.kv_len;
    for (const KeyRun& run : unused_keys(p, lists))
      for (std::int64_t key = run.first; key < run.first + run.count; ++key)
        for (int head = 0; head < p.kv_heads; ++head) {
          const auto poison = [&](Words* data, const Strides& s, int dim) {
            const int words = element_bytes(p.q_type) / 2;
            const std::int64_t at = shift + (key / keys * s.batch + key % keys * s.row + head * s.head) * words;
            std::fill_n(data->begin() + at, dim * words, std::uint16_t{0x7fff});  // a NaN in all types
          };
          poison(&k, call.strides(Role::kK), p.head_dim);
          poison(&v, call.strides(Role::kV), p.head_dim_v);
        }
  }

  float out_at(int b, int h, int i, int d) const { return plain::row_of(call, Role::kOut, b, i, h)[d]; }

 private:
  // float32 weights are not rounded to anything.
  static double rounding_of_weights(ElementType type) {
    return type == ElementType::kF32 ? 0 : type == ElementType::kBF16 ? 1.0 / 256 : 1.0 / 2048;
  }
};

// What float64 makes of a case, out and lse row after row; made once for as long as its inputs stay as they are, since
// most of a test of many kernels would be spent on it. The copy in `memory` is what makes sure of that.
struct Float64 {
  Problem problem;
  std::vector<std::int64_t> strides;
  float scale = 0;
  ScoreSlots slots = {};
  std::vector<float> sink;
  ChainArraysCase arrays;
  std::vector<std::uint16_t> q, k, v;
  std::vector<double> out, lse;
};

inline const Float64& float64_of(const AttentionCase& t) {
  static Float64 memory;
  const Problem& p = t.call.problem;
  std::vector<std::int64_t> strides;
  for (const Strides& s : {t.call.strides(Role::kQ), t.call.strides(Role::kK), t.call.strides(Role::kV)})
    strides.insert(strides.end(), {s.batch, s.row, s.head});
  if (memory.problem == p && memory.strides == strides && memory.scale == t.call.scale &&
      memory.slots == t.call.slots && memory.sink == t.sink && memory.arrays == t.arrays && memory.q == t.q &&
      memory.k == t.k && memory.v == t.v)
    return memory;
  const std::size_t rows = static_cast<std::size_t>(p.batch) * p.q_heads * p.q_len, dim = p.head_dim_v;
  memory = {p,
            strides,
            t.call.scale,
            t.call.slots,
            t.sink,
            t.arrays,
            t.q,
            t.k,
            t.v,
            std::vector<double>(rows * dim),
            std::vector<double>(rows)};
  std::size_t row = 0;
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i, ++row) reference_row(t.call, b, h, i, &memory.out[row * dim], &memory.lse[row]);
  return memory;
}

// The first element that differs from float64 by more than the dtype's rounding and such an error of weights allow; of
// lse where it was given.
inline ::testing::AssertionResult matches_float64(const AttentionCase& t) {
  const Problem& p = t.call.problem;
  // One unit in the last place, and for bfloat16 as much again for probabilities that were rounded to it.
  const double relative = p.q_type == ElementType::kF32    ? 1e-6
                          : p.q_type == ElementType::kBF16 ? 1.0 / 128
                                                           : 1.0 / 2048;
  const Float64& float64 = float64_of(t);
  std::size_t row = 0;
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i, ++row) {
        const double* const expected = &float64.out[row * static_cast<std::size_t>(p.head_dim_v)];
        const double lse = float64.lse[row], given_lse = t.lse[row];
        if (t.call.has(Role::kLse) && given_lse != lse && !(std::fabs(given_lse - lse) < 1e-4 * (1 + std::fabs(lse))))
          return ::testing::AssertionFailure() << to_text(p) << ": lse at " << b << "," << h << "," << i << " is "
                                               << given_lse << ", expected " << lse;
        for (int d = 0; d < p.head_dim_v; ++d) {
          const double given = t.out_at(b, h, i, d), right = expected[d];
          if (!(std::fabs(given - right) <= relative * std::fabs(right) + t.slack))
            return ::testing::AssertionFailure() << to_text(p) << ": out at " << b << "," << h << "," << i << "," << d
                                                 << " is " << given << ", expected " << right;
        }
      }
  return ::testing::AssertionSuccess();
}

}  // namespace gqa::test

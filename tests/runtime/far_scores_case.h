// far_scores_case.h: finite scores far from zero, as masks that fill with a finite number and large inputs make them.
// Owns: masks of finite numbers in a case's biases, products of 1e9 and more, the comparison of log-sum-exp, tighter
// than attention_case.h's.
// Never: runs a kernel.
// Threads: none.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/runtime/attention_case.h"

namespace gqa::test {

// Whether a mask hides key j from row i.
struct FiniteMask {
  const char* name;
  bool (*hides)(const Problem& p, int i, int j);
};

inline constexpr FiniteMask kFiniteMasks[] = {
    {"causal", [](const Problem& p, int i, int j) { return j > i + p.kv_len - p.q_len; }},
    {"causal, aligned to the top", [](const Problem&, int i, int j) { return j > i; }},
    {"left padded", [](const Problem& p, int, int j) { return j < p.kv_len / 2 + 3; }},
    {"right padded", [](const Problem& p, int, int j) { return j > p.kv_len / 2 - 3; }},
    {"left padded, causal", [](const Problem& p, int i, int j) { return j < p.kv_len / 3 || j > i; }},
    {"whole rows", [](const Problem&, int i, int) { return i % 3 != 1; }},
};

inline float least_bias(const Problem& p) {
  if (p.chain.reads(ChainOperand::kTensor32)) return std::numeric_limits<float>::lowest();
  return p.q_type == ElementType::kBF16 ? -0x1.fep127F : -65504.F;
}

// bias(head, row, key) takes the place of the case's.
template <typename Bias>
void set_biases(AttentionCase* t, const Bias& bias) {
  const Problem& p = t->call.problem;
  const Strides& s = t->arrays.score_strides;
  // Not the case's NaN between rows, which equal nothing: float64's answer then serves all kernels (float64_of()).
  std::fill(t->arrays.scores16.begin(), t->arrays.scores16.end(), std::uint16_t{0});
  std::fill(t->arrays.scores32.begin(), t->arrays.scores32.end(), 0.F);
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i)
        for (int j = 0; j < p.kv_len; ++j) {
          const auto at = static_cast<std::size_t>(b * s.batch + h * s.head + i * s.row + j);
          if (t->arrays.scores16.empty())
            t->arrays.scores32[at] = bias(h, i, j);
          else
            t->arrays.scores16[at] = store(p.q_type, bias(h, i, j));
        }
}

inline void hide(const FiniteMask& mask, float number, AttentionCase* t) {
  set_biases(t, [&](int, int i, int j) {
    return mask.hides(t->call.problem, i, j) ? number : 0.25F * static_cast<float>(j % 5);
  });
}

// A row's biases lie about such a number, each row about another; one key in seven has the next float32 up.
inline constexpr float kFarBiases[] = {1e9F,     -1e9F,     1.586e9F, -1.586e9F, 5e9F, -5e9F, 1e15F, -1e15F,
                                       1e20F,    -1e20F,    3e38F,    -3e38F,    1e5F, -1e5F, 1e6F,  -1e6F,
                                       2.39e38F, -2.39e38F, 3.4e38F,  -3.4e38F,  1e7F, -1e7F};

inline void set_far_biases(AttentionCase* t) {
  set_biases(t, [&](int h, int i, int j) {
    const float number = kFarBiases[static_cast<std::size_t>(h + i) % std::size(kFarBiases)];
    return j % 7 == 3 ? std::nextafter(number, std::numeric_limits<float>::infinity()) : number;
  });
}

// One of four rows has scores near zero, one products of `size` squared times 8 million, one their negative, one only
// zeros, or all rows are of one such kind. Products shrink key by key, in exact steps. near_keys: some keys' products
// are 0 to all but the first.
constexpr int kEveryKind = -1;
inline void set_far_products(float size, bool near_keys, AttentionCase* t, int only = kEveryKind) {
  const Problem& p = t->call.problem;
  const float level = 20992 * size, step = (p.q_type == ElementType::kBF16 ? 128.F : 16.F) * size;
  for (int b = 0; b < p.batch; ++b) {
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i)
        for (int d = 0; d < p.head_dim; ++d) {
          std::uint16_t& element =
              t->q[static_cast<std::size_t>(b * t->call.strides(Role::kQ).batch + h * t->call.strides(Role::kQ).head +
                                            i * t->call.strides(Role::kQ).row + d)];
          const int kind = only == kEveryKind ? (i + h) % 4 : only;
          if (d < 32) element = store(p.q_type, kind == 1 ? level : kind == 2 ? -level : 0.F);
          if (d >= 32 && kind != 0) element = 0;
        }
    for (int h = 0; h < p.kv_heads; ++h)
      for (int j = 0; j < p.kv_len; ++j)
        for (int d = 0; d < 32; ++d) {
          const bool near = near_keys && j % 40 < 11;
          const float lower = d == 0 ? step * static_cast<float>(j / 24 % 3) : 0.F;
          t->k[static_cast<std::size_t>(b * t->call.strides(Role::kK).batch + h * t->call.strides(Role::kK).head +
                                        j * t->call.strides(Role::kK).row + d)] =
              store(p.q_type, near ? 0.F : level - lower);
        }
  }
}

// They are float64's, rounded: some units in the last place apart.
inline ::testing::AssertionResult lse_matches_float64(const AttentionCase& t) {
  const std::vector<double>& expected = float64_of(t).lse;
  for (std::size_t row = 0; t.call.has(Role::kLse) && row < expected.size(); ++row)
    if (t.lse[row] != static_cast<float>(expected[row]) &&
        !(std::fabs(t.lse[row] - expected[row]) <= 4e-7 * std::fabs(expected[row]) + 2e-5))
      return ::testing::AssertionFailure()
             << "lse of row " << row << " is " << t.lse[row] << ", expected " << expected[row];
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult far_scores_right(const AttentionCase& t) {
  const auto right = matches_float64(t);
  return right ? lse_matches_float64(t) : right;
}

}  // namespace gqa::test

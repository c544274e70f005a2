// scores_c_test.cc: a soft cap, factors, a bias and a sink through libgqa.so and gqa.h alone: numbers worked out by
// hand, other caps that compile and tune nothing, what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/host_handle.h"
#include "tests/runtime/api/made_shape.h"

namespace {

// One query of one head and two keys, whose scores are 3 and 1 before any cap; values are 8 and 0.
struct TwoKeys {
  static constexpr int kDim = 32;
  std::vector<std::uint16_t> q = zeros(1), k = zeros(2), v = zeros(2), out = zeros(1);
  float lse = 0;
  std::int64_t q_shape[4] = {1, 1, 1, kDim}, kv_shape[4] = {1, 2, 1, kDim}, lse_shape[3] = {1, 1, 1};
  DLTensor q_tensor, k_tensor, v_tensor, out_tensor, lse_tensor;
  gqa_call call = {};

  TwoKeys() {
    constexpr std::uint16_t kOne = 0x3f80, kThree = 0x4040, kEight = 0x4100;  // bfloat16
    q[0] = kOne;
    k[0] = kThree;
    k[kDim] = kOne;
    for (int d = 0; d < kDim; ++d) v[static_cast<std::size_t>(d)] = kEight;
    const DLDataType bf16 = {kDLBfloat, 16, 1}, f32 = {kDLFloat, 32, 1};
    q_tensor = {q.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0};
    k_tensor = {k.data(), {kDLCPU, 0}, 4, bf16, kv_shape, nullptr, 0};
    v_tensor = {v.data(), {kDLCPU, 0}, 4, bf16, kv_shape, nullptr, 0};
    out_tensor = {out.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0};
    lse_tensor = {&lse, {kDLCPU, 0}, 3, f32, lse_shape, nullptr, 0};
    call.size = sizeof(call);
    call.scale = 1;
    call.lse = &lse_tensor;
  }
  TwoKeys(const TwoKeys&) = delete;
  TwoKeys& operator=(const TwoKeys&) = delete;

  static std::vector<std::uint16_t> zeros(int rows) {
    return std::vector<std::uint16_t>(static_cast<std::size_t>(rows * kDim));
  }
  float first() const {
    const std::uint32_t bits = std::uint32_t{out[0]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  using Run = gqa_status (*)(gqa_handle, const DLTensor*, const DLTensor*, const DLTensor*, const DLTensor*,
                             const gqa_call*);
  gqa_status run(gqa_handle handle, Run with = gqa_run_ex) {
    return with(handle, &q_tensor, &k_tensor, &v_tensor, &out_tensor, &call);
  }
  // What out and lse should be, of such scores.
  void expect(double high, double low) const {
    const double sum = std::exp(high) + std::exp(low);
    EXPECT_NEAR(first(), 8 * std::exp(high) / sum, 8.0 / 128);
    EXPECT_NEAR(lse, std::log(sum), 1e-4);
  }
};

class ScoresCApi : public gqa::test::HostCApi {
 protected:
  TwoKeys t_;
};

double capped(double score, double cap) { return cap * std::tanh(score / cap); }

TEST_F(ScoresCApi, ASoftcapBoundsScoresAndLse) {
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(3, 1);
  t_.call.softcap = 2;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(capped(3, 2), capped(1, 2));
}

TEST_F(ScoresCApi, AnotherCapCompilesAndTunesNothing) {
  t_.call.softcap = 2;
  EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_ERROR_NOT_CACHED);
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  for (const float cap : {0.5F, 2.F, 30.F}) {
    t_.call.softcap = cap;
    ASSERT_EQ(t_.run(handle_, gqa_run_ready), GQA_OK) << gqa_last_error();
    t_.expect(capped(3, cap), capped(1, cap));
  }
  t_.call.softcap = 0;
  EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_ERROR_NOT_CACHED);
}

TEST_F(ScoresCApi, AWarmedShapeServesEveryCap) {
  gqa_shape shape = gqa::test::made_shape({.kv_len = 2, .head_dim = TwoKeys::kDim});
  shape.lse = shape.softcap = 1;
  ASSERT_EQ(gqa_warm(handle_, &shape), GQA_OK) << gqa_last_error();
  t_.call.softcap = 7;
  EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_OK) << gqa_last_error();
}

TEST_F(ScoresCApi, WhatIsNoCapIsRefused) {
  for (const float cap : {-1.F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    t_.call.softcap = cap;
    EXPECT_EQ(t_.run(handle_), GQA_ERROR_OPTION);
    EXPECT_EQ(std::string(gqa_last_error()).find("gqa_call.softcap is "), 0U) << gqa_last_error();
  }
}

TEST_F(ScoresCApi, ASinkJoinsTheDenominator) {
  float number = 2;
  std::int64_t one[] = {1};
  const DLTensor sink = {&number, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, one, nullptr, 0};
  t_.call.sink = &sink;
  EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_ERROR_NOT_CACHED);
  for (const float other : {2.F, -5.F, 6.F}) {
    number = other;
    ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
    const double sum = std::exp(3.0) + std::exp(1.0) + std::exp(double{other});
    EXPECT_NEAR(t_.first(), 8 * std::exp(3.0) / sum, 8.0 / 128);
    EXPECT_NEAR(t_.lse, std::log(sum), 1e-4);
  }
}

TEST_F(ScoresCApi, AWarmedShapeServesSinks) {
  gqa_shape shape = gqa::test::made_shape({.kv_len = 2, .head_dim = TwoKeys::kDim});
  shape.lse = shape.sink = 1;
  ASSERT_EQ(gqa_warm(handle_, &shape), GQA_OK) << gqa_last_error();
  float number = 2;
  std::int64_t one[] = {1};
  const DLTensor sink = {&number, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, one, nullptr, 0};
  t_.call.sink = &sink;
  EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_OK) << gqa_last_error();
}

TEST_F(ScoresCApi, AWarmedShapeServesFactorsAndBiases) {
  float factor = -0.5F, biases[] = {0.25F, -2};
  std::uint16_t halves[] = {0, 0x3f80};
  std::int64_t one[] = {1}, rows[] = {1, 1, 1}, two[] = {1, 1, 1, 2};
  const DLTensor of_heads = {&factor, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, one, nullptr, 0};
  const DLTensor of_rows = {&factor, {kDLCPU, 0}, 3, {kDLFloat, 32, 1}, rows, nullptr, 0};
  const DLTensor wide = {biases, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, two, nullptr, 0};
  const DLTensor narrow = {halves, {kDLCPU, 0}, 4, {kDLBfloat, 16, 1}, two, nullptr, 0};
  const struct {
    gqa_score_scale score_scale;
    gqa_bias bias;
    const DLTensor *scale_given, *bias_given;
  } cases[] = {{GQA_SCORE_SCALE_HEADS, GQA_BIAS_NONE, &of_heads, nullptr},
               {GQA_SCORE_SCALE_ROWS, GQA_BIAS_FLOAT32, &of_rows, &wide},
               {GQA_SCORE_SCALE_NONE, GQA_BIAS_OF_Q, nullptr, &narrow}};
  for (const auto& [score_scale, bias, scale_given, bias_given] : cases) {
    t_.call.score_scale = scale_given;
    t_.call.bias = bias_given;
    EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_ERROR_NOT_CACHED);
    gqa_shape shape = gqa::test::made_shape({.kv_len = 2, .head_dim = TwoKeys::kDim});
    shape.lse = 1;
    shape.score_scale = score_scale;
    shape.bias = bias;
    ASSERT_EQ(gqa_warm(handle_, &shape), GQA_OK) << gqa_last_error();
    EXPECT_EQ(t_.run(handle_, gqa_run_ready), GQA_OK) << gqa_last_error();
  }
}

TEST_F(ScoresCApi, AFactorAndABiasChangeScores) {
  float factor = -0.5F, biases[] = {0.25F, -2, std::numeric_limits<float>::quiet_NaN()};
  std::int64_t one[] = {1}, two[] = {1, 1, 1, 2};
  const DLTensor scale = {&factor, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, one, nullptr, 0};
  const DLTensor bias = {biases, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, two, nullptr, 0};
  t_.call.score_scale = &scale;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(-1.5, -0.5);
  t_.call.bias = &bias;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(-1.25, -2.5);
  t_.call.score_scale = nullptr;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(3.25, -1);
  t_.call.softcap = 2;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(capped(3, 2) + 0.25, capped(1, 2) - 2);
}

// -inf hides a key; a row whose keys are all hidden is one that sees none.
TEST_F(ScoresCApi, ABiasOfMinusInfinityHidesAKey) {
  const float hidden = -std::numeric_limits<float>::infinity();
  float biases[] = {0, hidden};
  std::int64_t two[] = {1, 1, 1, 2};
  const DLTensor bias = {biases, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, two, nullptr, 0};
  t_.call.bias = &bias;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.first(), 8);
  EXPECT_NEAR(t_.lse, 3, 1e-4);
  biases[0] = hidden;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.first(), 0);
  EXPECT_EQ(t_.lse, hidden);
}

// As headers have it that end before it.
TEST_F(ScoresCApi, ACallWithoutTheFieldHasNoCap) {
  t_.call.softcap = 2;
  t_.call.size = offsetof(gqa_call, softcap);
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(3, 1);
}

TEST_F(ScoresCApi, ACallThatEndsBeforeFactorsHasNone) {
  t_.call.bias = &t_.q_tensor;  // what the caller's stack held
  t_.call.size = offsetof(gqa_call, score_scale);
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  t_.expect(3, 1);
}

}  // namespace

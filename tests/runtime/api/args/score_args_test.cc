// score_args_test.cc: a soft cap, factors, a bias and a sink of a call and of a shape: what becomes of them, what is
// refused and how it is said, calls that repeat.
#include "runtime/api/args/score_args.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>

#include "search/problem/signature.h"
#include "tests/runtime/api/args/fake_call.h"
#include "tests/runtime/api/made_shape.h"

namespace gqa::test {
namespace {

// A good call: batch 2, 8 queries of 4 heads, 48 keys of 2 heads.
struct ScoredCall : FakeCall {
  ScoredCall() : FakeCall({2, 8, 4, 64}, {2, 48, 2, 64}) {}
  void describe() override {
    options.sink = with_sink ? sink.get() : nullptr;
    options.score_scale = with_scale ? scale.get() : nullptr;
    options.bias = with_bias ? bias.get() : nullptr;
  }

  TestTensor sink{8 * kApart, {4}, kF32};
  TestTensor scale{10 * kApart, {4}, kF32};
  TestTensor bias{12 * kApart, {2, 4, 8, 48}};
  bool with_sink = false, with_scale = false, with_bias = false;
};

TEST(ScoreArgs, ASoftcapIsAPartOfTheProblemItsNumberOfTheCall) {
  ScoredCall c;
  c.options.softcap = 30;
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(c.call.problem.chain, softcap_chain());
  EXPECT_EQ(c.call.slots[kSoftcapSlot], 30);
  const Signature capped(c.call.problem);
  c.options.softcap = 50;
  EXPECT_FALSE(c.recent()) << "the call of another cap";
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(c.call.slots[kSoftcapSlot], 50);
  EXPECT_EQ(Signature(c.call.problem), capped);
  EXPECT_TRUE(c.recent());
  EXPECT_EQ(c.call.slots[kSoftcapSlot], 50);
  c.options.softcap = 0;
  ASSERT_TRUE(c.make().ok());
  EXPECT_FALSE(c.call.problem.chain.any());
  for (const float wrong :
       {-1.F, 1e-40F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    c.options.softcap = wrong;
    EXPECT_EQ(c.make().code(), Code::kOption);
    EXPECT_NE(c.make().message().find("gqa_call.softcap is "), std::string::npos) << c.make().message();
  }
}

TEST(ScoreArgs, ASinkIsWhereItIsNow) {
  ScoredCall c;
  c.with_sink = true;
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_TRUE(c.call.problem.sink);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.at<float>(Role::kSink)), 8 * kApart);
  c.sink.data = 9 * kApart;
  EXPECT_TRUE(c.recent());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.at<float>(Role::kSink)), 9 * kApart);
  c.with_sink = false;
  ASSERT_TRUE(c.make().ok());
  EXPECT_FALSE(c.call.problem.sink);
  EXPECT_EQ(c.call.at<float>(Role::kSink), nullptr);
}

TEST(ScoreArgs, WhatIsNoSinkIsRefused) {
  const auto refusal = [](void (*spoil)(ScoredCall&)) {
    ScoredCall c;
    c.with_sink = true;
    spoil(c);
    return c.make().message();
  };
  EXPECT_EQ(refusal([](ScoredCall& c) { c.sink.shape[0] = 3; }).find("sink has q_heads 3, but q has q_heads 4"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.sink.dtype = kBf16; }).find("sink is bfloat16, expected float32"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.sink.rank = 2; }).find("sink has 2 dimensions, expected 1"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.sink.device = {kDLCPU, 0}; }).find("sink is on the CPU"), 0U);
  EXPECT_NE(refusal([](ScoredCall& c) { c.sink.data = 4 * kApart; }).find("out touches bytes"), std::string::npos);
  EXPECT_NE(refusal([](ScoredCall& c) { c.sink.data = 0; }).find("sink"), std::string::npos);
}

std::string steps_of(ScoredCall& c) {
  const Status status = c.make();
  return status.ok() ? chain_text(c.call.problem.chain) : status.message();
}

TEST(ScoreArgs, FactorsAndABiasAreSteps) {
  ScoredCall c;
  c.with_scale = true;
  EXPECT_EQ(steps_of(c), ",scores=mulhead");
  c.options.softcap = 30;
  EXPECT_EQ(steps_of(c), ",scores=div0+mulhead+tanh+mul0");
  c.scale = TestTensor{10 * kApart, {1, 4, 8}, kF32};
  EXPECT_EQ(steps_of(c), ",scores=div0+mulrow+tanh+mul0");
  c.with_scale = false;
  c.with_bias = true;
  EXPECT_EQ(steps_of(c), ",scores=div0+tanh+mul0+addtensor");
  c.options.softcap = 0;
  c.bias.dtype = kF32;
  EXPECT_EQ(steps_of(c), ",scores=addtensor32");
  c.with_scale = true;
  EXPECT_EQ(steps_of(c), ",scores=mulrow+addtensor32");
}

// A size of 1 is one number for all; where the arrays lie is the call's.
TEST(ScoreArgs, ArraysAreBroadcastAndAreWhereTheyAreNow) {
  ScoredCall c;
  c.with_scale = c.with_bias = true;
  c.scale = TestTensor{10 * kApart, {1, 4, 8}, kF32};
  c.bias = TestTensor{12 * kApart, {2, 1, 1, 48}};
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  const auto lies_at = [&](Role role) { return reinterpret_cast<std::uintptr_t>(c.call.at(role)); };
  EXPECT_TRUE(c.call.problem.chain.reads(ChainOperand::kRow));
  EXPECT_EQ(lies_at(Role::kScoreScale), 10 * kApart);
  EXPECT_EQ(lies_at(Role::kBias), 12 * kApart);
  const auto same = [](const Strides& s, std::int64_t batch, std::int64_t row, std::int64_t head) {
    return s.batch == batch && s.row == row && s.head == head;
  };
  EXPECT_TRUE(same(c.call.strides(Role::kScoreScale), 0, 1, 8));
  EXPECT_TRUE(same(c.call.strides(Role::kBias), 48, 0, 0));
  c.scale.data = 14 * kApart;
  c.bias.data = 16 * kApart;
  EXPECT_TRUE(c.recent());
  EXPECT_EQ(lies_at(Role::kScoreScale), 14 * kApart);
  EXPECT_EQ(lies_at(Role::kBias), 16 * kApart);
  c.bias.strides[0] = 96;
  EXPECT_FALSE(c.recent()) << "the call of another bias";
  ASSERT_TRUE(c.make().ok());
  EXPECT_TRUE(same(c.call.strides(Role::kBias), 96, 0, 0));
  c.with_scale = c.with_bias = false;
  ASSERT_TRUE(c.make().ok());
  EXPECT_FALSE(c.call.has(Role::kScoreScale) || c.call.has(Role::kBias));
}

TEST(ScoreArgs, OfHeadsIsWhereItIsNow) {
  ScoredCall c;
  c.with_scale = true;
  ASSERT_TRUE(c.make().ok());
  c.scale.data = 14 * kApart;
  EXPECT_TRUE(c.recent());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.at(Role::kScoreScale)), 14 * kApart);
  EXPECT_TRUE(c.call.problem.chain.reads(ChainOperand::kHead));
}

TEST(ScoreArgs, WhatAreNoArraysOfScoresIsRefused) {
  const auto refusal = [](void (*spoil)(ScoredCall&)) {
    ScoredCall c;
    c.with_scale = c.with_bias = true;
    spoil(c);
    return c.make().message();
  };
  EXPECT_EQ(refusal([](ScoredCall& c) { c.scale.shape[0] = 3; }).find("score_scale has q_heads 3, but q has"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.scale.dtype = kBf16; }).find("score_scale is bfloat16, expected float32"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.scale.device = {kDLCPU, 0}; }).find("score_scale is on the CPU"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) {
              c.scale = TestTensor{10 * kApart, {3, 4, 8}, kF32};
            }).find("score_scale has batch 3, expected 2 or 1"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) {
              c.scale = TestTensor{10 * kApart, {2, 4, 7}, kF32};
            }).find("score_scale has q_len 7, but q has q_len 8"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) {
              c.scale = TestTensor{10 * kApart, {4, 8}, kF32};
            }).find("score_scale has 2 dimensions, expected 3"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.dtype = kF16; }).find("bias is float16, expected float32 or, as q, bf"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) {
              c.bias.dtype = kF16;
            }).find("bias is float16, expected float32 or, as q, bfloat16: cast bias to bfloat16"),
            0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.rank = 3; }).find("bias has 3 dimensions, expected 4"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.shape[1] = 2; }).find("bias has q_heads 2, expected 4 or 1"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.shape[3] = 47; }).find("bias has kv_len 47, but k has kv_len 48"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.shape[3] = 1; }).find("bias has kv_len 1, but k has kv_len 48"), 0U);
  EXPECT_EQ(refusal([](ScoredCall& c) { c.bias.strides[3] = 2; }).find("bias's last stride is 2, expected 1"), 0U);
  EXPECT_NE(refusal([](ScoredCall& c) { c.bias.data = 4 * kApart; }).find("out touches bytes"), std::string::npos);
  EXPECT_NE(refusal([](ScoredCall& c) { c.options.softcap = 1; }).find("at most two of them"), std::string::npos);
}

TEST(ScoreArgs, PackedSequencesHaveFactorsOfHeadsAlone) {
  ScoredCall c;
  TestTensor starts{18 * kApart, {3}, {kDLInt, 32, 1}};
  c.q = TestTensor{1 * kApart, {16, 4, 64}};
  c.out = TestTensor{4 * kApart, {16, 4, 64}};
  c.options.cu_seqlens_q = starts.get();
  c.options.max_seqlen_q = 8;
  c.with_scale = true;
  EXPECT_EQ(steps_of(c), ",scores=mulhead");
  c.scale = TestTensor{10 * kApart, {2, 4, 8}, kF32};
  EXPECT_EQ(steps_of(c), "score_scale of each row with packed sequences, expected (q_heads)");
  c.with_scale = false;
  c.with_bias = true;
  EXPECT_EQ(steps_of(c), "gqa_call.bias with packed sequences or k_new, expected none");
}

// Struct sizes of headers before a field: whole words, whatever padding holds.
TEST(ScoreArgs, AShapeOfAnOlderHeaderHasNone) {
  gqa_shape shape = made_shape({.kv_len = 20});
  shape.softcap = shape.sink = 1;
  Problem problem;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_TRUE(problem.chain == softcap_chain() && problem.sink);
  shape.bias = GQA_BIAS_OF_Q;
  shape.size = (offsetof(gqa_shape, score_scale) + 7) / 8 * 8;
  ASSERT_TRUE(make_problem(&shape, &problem).ok()) << make_problem(&shape, &problem).message();
  EXPECT_TRUE(problem.chain == softcap_chain()) << "a header without a bias";
  shape.softcap = 77;  // what padding held
  shape.size = offsetof(gqa_shape, sink);
  ASSERT_TRUE(make_problem(&shape, &problem).ok()) << make_problem(&shape, &problem).message();
  EXPECT_FALSE(problem.chain.any() || problem.sink);
  shape.cu_seqlens_q = 77;
  shape.size = offsetof(gqa_shape, cu_seqlens_k);  // before packed sequences
  ASSERT_TRUE(make_problem(&shape, &problem).ok()) << make_problem(&shape, &problem).message();
  EXPECT_FALSE(problem.q_packed());
}

TEST(ScoreArgs, AShapeIsRefusedWhatACallIs) {
  const auto said = [](void (*change)(gqa_shape&)) {
    gqa_shape shape = made_shape({.q_len = 4, .kv_len = 20});
    change(shape);
    Problem problem;
    return make_problem(&shape, &problem).message();
  };
  EXPECT_EQ(said([](gqa_shape& s) { s.score_scale = GQA_SCORE_SCALE_ROWS; }), "");
  EXPECT_EQ(said([](gqa_shape& s) { s.score_scale = static_cast<gqa_score_scale>(3); }),
            "gqa_shape.score_scale is 3, expected GQA_SCORE_SCALE_NONE, GQA_SCORE_SCALE_HEADS or GQA_SCORE_SCALE_ROWS");
  EXPECT_EQ(said([](gqa_shape& s) { s.bias = static_cast<gqa_bias>(-1); }),
            "gqa_shape.bias is -1, expected GQA_BIAS_NONE, GQA_BIAS_OF_Q or GQA_BIAS_FLOAT32");
  EXPECT_EQ(said([](gqa_shape& s) {
              s.softcap = 1;
              s.score_scale = GQA_SCORE_SCALE_HEADS;
              s.bias = GQA_BIAS_OF_Q;
            }),
            "gqa_shape has softcap, score_scale and bias, expected at most two of them: multiply q");
  EXPECT_EQ(said([](gqa_shape& s) {
              s.cu_seqlens_q = 1;
              s.bias = GQA_BIAS_OF_Q;
            }),
            "gqa_shape.bias with packed sequences, expected none");
  EXPECT_EQ(said([](gqa_shape& s) {
              s.cu_seqlens_k = 1;
              s.score_scale = GQA_SCORE_SCALE_ROWS;
            }),
            "gqa_shape.score_scale of each row with packed sequences, expected that of heads");
}

}  // namespace
}  // namespace gqa::test

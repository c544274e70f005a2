// score_args_test.cc: a soft cap and a sink of a call and of a shape: what becomes of them, what is refused and how it
// is said, calls that repeat.
#include "runtime/api/score_args.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>

#include "runtime/api/args.h"
#include "runtime/api/recent_calls.h"
#include "search/problem/signature.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/tensors.h"

namespace gqa::test {
namespace {

constexpr std::uintptr_t kScoresApart = 1u << 30;  // tensors lie that far apart

// A good call: batch 2, 8 queries of 4 heads, 48 keys of 2 heads.
struct ScoredCall {
  TestTensor q{1 * kScoresApart, {2, 8, 4, 64}};
  TestTensor k{2 * kScoresApart, {2, 48, 2, 64}};
  TestTensor v{3 * kScoresApart, {2, 48, 2, 64}};
  TestTensor out{4 * kScoresApart, {2, 8, 4, 64}};
  TestTensor sink{8 * kScoresApart, {4}, kF32};
  bool with_sink = false;
  gqa_call options = {};
  Call call;

  void describe() {
    options.size = sizeof(options);
    options.sink = with_sink ? sink.get() : nullptr;
  }
  Status make() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    return make_call(device, q.get(), k.get(), v.get(), out.get(), &options, &call);
  }
  // Whether the call is one that was checked a moment ago, but for its addresses.
  bool recent() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    return find_recent_call(device, {q.get(), k.get(), v.get(), out.get(), &options}, &call);
  }
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
  for (const float wrong : {-1.F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
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
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.sink), 8 * kScoresApart);
  c.sink.data = 9 * kScoresApart;
  EXPECT_TRUE(c.recent());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.sink), 9 * kScoresApart);
  c.with_sink = false;
  ASSERT_TRUE(c.make().ok());
  EXPECT_FALSE(c.call.problem.sink);
  EXPECT_EQ(c.call.sink, nullptr);
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
  EXPECT_NE(refusal([](ScoredCall& c) { c.sink.data = 4 * kScoresApart; }).find("out touches bytes"),
            std::string::npos);
  EXPECT_NE(refusal([](ScoredCall& c) { c.sink.data = 0; }).find("sink"), std::string::npos);
}

// Struct sizes of headers before a field: whole words, whatever padding holds.
TEST(ScoreArgs, AShapeOfAnOlderHeaderHasNone) {
  gqa_shape shape = {};
  shape.size = sizeof(shape);
  shape.batch = shape.q_len = shape.q_heads = shape.kv_heads = 1;
  shape.kv_len = 20;
  shape.head_dim = 64;
  shape.dtype = kBf16;
  shape.softcap = shape.sink = 1;
  Problem problem;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_TRUE(problem.chain == softcap_chain() && problem.sink);
  shape.softcap = 77;  // what padding held
  shape.size = offsetof(gqa_shape, sink);
  ASSERT_TRUE(make_problem(&shape, &problem).ok()) << make_problem(&shape, &problem).message();
  EXPECT_FALSE(problem.chain.any() || problem.sink);
  shape.cu_seqlens_q = 77;
  shape.size = offsetof(gqa_shape, cu_seqlens_k);  // before packed sequences
  ASSERT_TRUE(make_problem(&shape, &problem).ok()) << make_problem(&shape, &problem).message();
  EXPECT_FALSE(problem.q_packed());
}

}  // namespace
}  // namespace gqa::test

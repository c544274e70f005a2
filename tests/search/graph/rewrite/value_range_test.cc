// value_range_test.cc: values lie where it is said that they lie, and what may overflow is no graph to go on with.
#include "search/graph/rewrite/value_range.h"

#include "tests/search/graph/rewrite/saturated.h"

namespace gqa {
namespace {

ValueRange range_of(const std::string& text, const std::string& tensor) {
  const KernelGraph graph = graph_of("graph 1\nx = input f32[6,8]\nh = input f16[6,8]\nw = input f32[8,4]\n" + text);
  return value_ranges(graph)[static_cast<std::size_t>(graph.find(tensor))];
}

TEST(ValueRange, ExponentialsBelowTheirMaximumAreAtMostOne) {
  const std::string softmax = "m = max(x) dim=1\nz = sub_max(x, m)\ne = exp(z)\ns = sum(e) dim=1\np = div(e, s)\n";
  EXPECT_TRUE(range_of(softmax, "e").in_unit());
  EXPECT_EQ(range_of(softmax, "s").low, 1);
  EXPECT_EQ(range_of(softmax, "s").high, 8);
  EXPECT_TRUE(range_of(softmax, "p").in_unit());
  EXPECT_EQ(range_of("e = exp(x)\n", "e").high, kInfinity);
  EXPECT_TRUE(range_of("e = exp(x)\ns = sum(e) dim=1\np = div(e, s)\n", "p").in_unit());
  EXPECT_EQ(range_of("e = exp(x)\ns = sum(e) dim=0\nt = sum(x) dim=1\np = div(e, t)\n", "p").high, kInfinity);
}

TEST(ValueRange, ARowByItsRootMeanSquareIsAtMostTheRootOfItsLength) {
  const std::string opened =
      "q = square(x)\ns = sum(q) dim=1\nm = scale(s) count=8\na = add_constant(m) c=0.5\nr = rsqrt(a)\n";
  EXPECT_DOUBLE_EQ(range_of("n = rms_norm(x) eps=0.5\n", "n").high, std::sqrt(8));
  EXPECT_DOUBLE_EQ(range_of(opened + "n = mul(x, r)\n", "n").high, std::sqrt(8));
  EXPECT_DOUBLE_EQ(range_of(opened + "n = mul(r, x)\n", "n").low, -std::sqrt(8));
  EXPECT_GT(range_of(opened + "n = mul(h, r)\n", "n").high, 65504) << "another row's";
}

TEST(ValueRange, FollowsArithmetic) {
  EXPECT_EQ(range_of("y = tanh(x)\nz = scale(y) c=-3\n", "z").low, -3);
  EXPECT_EQ(range_of("y = clamp(x) lo=-2 hi=5\nz = square(y)\n", "z").high, 25);
  EXPECT_EQ(range_of("y = clamp(x) lo=2 hi=5\nz = reciprocal(y)\n", "z").high, 0.5);
  EXPECT_EQ(range_of("y = clamp(x) lo=-2 hi=5\nz = reciprocal(y)\n", "z").high, kInfinity);
  EXPECT_EQ(range_of("y = clamp(x) lo=-2 hi=5\nz = sub(y, y)\n", "z").high, 7);
  EXPECT_EQ(range_of("y = relu(x)\nz = mul(y, y)\n", "z").low, 0);
  EXPECT_EQ(range_of("y = matmul(x, w)\n", "y").high, 8 * 65536.0 * 65536.0);
}

// The user's graph rounds it to its type, too, so it is finite wherever that is.
TEST(ValueRange, AFloat16ValueOfTheUsersGraphIsFinite) {
  EXPECT_EQ(range_of("y = square(h)\n", "y").high, 65504);
  EXPECT_GT(range_of("y = square(x)\n", "y").high, 1e9);
}

TEST(ValueRange, ARewritingThatMayOverflowIsDropped) {
  const std::string inputs = "graph 1\nq = input T[64,8]\nk = input T[8,64]\nv = input T[64,16]\na = matmul(q, k)\n";
  const std::string outward = "e = exp(a)\ns = sum(e) dim=1\np = div(e, s)\no = matmul(p, v)\n";
  const std::string multiplied_back = outward + "r = mul(o, s)\n";
  const auto of_type = [&](std::string text, const char* type) {
    for (std::size_t at = text.find("input T"); at != std::string::npos; at = text.find("input T", at + 1))
      text.replace(at + 6, 1, type);
    return saturated(text);
  };
  for (const char* type : {"f32", "bf16"}) {
    for (const std::string& text : {inputs + outward, inputs + multiplied_back}) {
      const Saturated result = of_type(text, type);
      EXPECT_GT(result.report.rewrites.pruned_for(Reason::kOverflow), 0) << type << text;
      for (const Rewritten& each : result.graphs) EXPECT_FALSE(may_overflow(each.graph)) << to_text(each.graph);
    }
  }
  // In float16 exp(a) is at most 65504 where the graph is finite, and its product with v far from float32's largest.
  EXPECT_EQ(of_type(inputs + outward, "f16").report.rewrites.pruned_for(Reason::kOverflow), 0);
}

// Below the maximum nothing overflows: (E V) / S is still reached.
TEST(ValueRange, ARunningMaximumMakesTheSameRewritingSafe) {
  const Saturated result = saturated(
      "graph 1\na = input bf16[64,64]\nv = input bf16[64,16]\ne = exp(a)\ns = sum(e) dim=1\np = div(e, s)\n"
      "o = matmul(p, v)\n");
  const bool reached = std::any_of(result.graphs.begin(), result.graphs.end(), [](const Rewritten& each) {
    return std::count(each.rules.begin(), each.rules.end(), "subtract_maximum") > 0 &&
           std::count(each.rules.begin(), each.rules.end(), "scaling_past_linear") > 0;
  });
  EXPECT_TRUE(reached);
}

ValueOrigin origin_of(const Rewritten& each, Op op) {
  for (const KernelNode& node : each.graph.nodes()) {
    if (node.op == op) return each.graph.tensor(node.outputs[0]).origin;
  }
  ADD_FAILURE() << "no " << name(op) << " in " << to_text(each.graph);
  return ValueOrigin::kGiven;
}

const Rewritten* led_by(const Saturated& result, const std::vector<std::string_view>& rules) {
  for (const Rewritten& each : result.graphs) {
    if (each.rules == rules) return &each;
  }
  return nullptr;
}

TEST(ValueOrigins, SayWhatTheUsersGraphHas) {
  const Saturated result =
      saturated("graph 1\nx = input f16[64,64]\nw = input f16[64,16]\nn = rms_norm(x)\ny = matmul(n, w)\n");
  const Rewritten* opened = led_by(result, {"open_rms_norm"});
  const Rewritten* outward = led_by(result, {"open_rms_norm", "scaling_past_linear"});
  ASSERT_TRUE(opened && outward);
  EXPECT_EQ(origin_of(*opened, Op::kSquare), ValueOrigin::kOpened);
  EXPECT_EQ(origin_of(*opened, Op::kMul), ValueOrigin::kGiven) << "rms_norm's own result";
  EXPECT_EQ(origin_of(*opened, Op::kMatmul), ValueOrigin::kGiven);
  EXPECT_EQ(origin_of(*outward, Op::kMatmul), ValueOrigin::kRewritten) << "x w";
  EXPECT_EQ(origin_of(*outward, Op::kMul), ValueOrigin::kGiven) << "the result";
}

TEST(ValueOrigins, WhatIsUnderAMaximumIsNoLongerTheUsers) {
  const Saturated result = saturated(
      "graph 1\na = input f16[64,64]\nv = input f16[64,16]\ne = exp(a)\ns = sum(e) dim=1\nn = matmul(e, v)\n"
      "o = div(n, s)\n");
  const Rewritten* under = led_by(result, {"subtract_maximum"});
  ASSERT_TRUE(under);
  for (const Op op : {Op::kExp, Op::kSum, Op::kMatmul})
    EXPECT_EQ(origin_of(*under, op), ValueOrigin::kRewritten) << name(op);
  EXPECT_EQ(origin_of(*under, Op::kDiv), ValueOrigin::kGiven);
}

}  // namespace
}  // namespace gqa

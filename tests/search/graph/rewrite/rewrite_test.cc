// rewrite_test.cc: each law gives what it says, all that it gives is equal, and no law is taken for more than it is.
#include "search/graph/rewrite/rewrite.h"

#include <algorithm>

#include "search/graph/ir/canonical.h"
#include "search/graph/prove/equivalence.h"
#include "search/graph/prove/shift.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/rewrite/saturated.h"

namespace gqa {
namespace {

bool found(const Saturated& result, const std::string& text) {
  const KernelGraph wanted = graph_of(text);
  return std::any_of(result.graphs.begin(), result.graphs.end(),
                     [&](const Rewritten& each) { return same_graph(each.graph, wanted); });
}

const std::string kX = "graph 1\nx = input f32[6,8]\nw = input f32[8,5]\n";

struct Law {
  std::string rule, from, to;
};

const Law kLaws[] = {
    {"open_softmax", "graph 1\nx = input f32[6,8]\ny = softmax(x) dim=1\n",
     "graph 1\nx = input f32[6,8]\nm = max(x) dim=1\nz = sub_max(x, m)\ne = exp(z)\ns = sum(e) dim=1\ny = normalize(e, "
     "s)\n"},
    {"open_rms_norm", "graph 1\nx = input f32[6,8]\ny = rms_norm(x) eps=0.5\n",
     "graph 1\nx = input f32[6,8]\nq = square(x)\ns = sum(q) dim=1\nm = scale(s) count=8\na = add_constant(m) c=0.5\n"
     "r = rsqrt(a)\ny = mul(x, r)\n"},
    {"open_mean", "graph 1\nx = input f32[6,8]\ny = mean(x) dim=0\n",
     "graph 1\nx = input f32[6,8]\ns = sum(x) dim=0\ny = scale(s) count=6\n"},
    {"drop_broadcast", kX + "r = input f32[6,1]\nb = broadcast(r) dims=[6,8]\ny = mul(x, b)\nz = matmul(y, w)\n",
     kX + "r = input f32[6,1]\ny = mul(x, r)\nz = matmul(y, w)\n"},
    {"fold_constant", "graph 1\nx = input f32[6,8]\nc = constant() c=3 dims=[1] type=f32\ny = mul(c, x)\n",
     "graph 1\nx = input f32[6,8]\ny = scale(x) c=3\n"},
    {"natural_exponent", "graph 1\nx = input f32[6,8]\ns = scale(x) c=" + to_text(kLog2E) + "\ny = exp2(s)\n",
     "graph 1\nx = input f32[6,8]\ny = exp(x)\n"},
    {"divide_by_reciprocal", "graph 1\nx = input f32[6,8]\nr = input f32[6,1]\ni = reciprocal(r)\ny = mul(x, i)\n",
     "graph 1\nx = input f32[6,8]\nr = input f32[6,1]\ny = div(x, r)\n"},
    {"scaling_past_linear", kX + "r = input f32[6,1]\nd = div(x, r)\ny = matmul(d, w)\n",
     kX + "r = input f32[6,1]\np = matmul(x, w)\ny = div(p, r)\n"},
    {"scaling_past_linear", kX + "s = scale(w) c=3\ny = matmul(x, s)\n", kX + "p = matmul(x, w)\ny = scale(p) c=3\n"},
    {"factor_past_linear", kX + "r = input f32[6,8]\nc = input f32[6,1]\nd = mul(c, x)\ny = matmul(d, w)\n",
     kX + "r = input f32[6,8]\nc = input f32[6,1]\np = matmul(x, w)\ny = mul(p, c)\n"},
    {"scaling_into_product", kX + "p = matmul(x, w)\ny = scale(p) c=3\n", kX + "s = scale(x) c=3\ny = matmul(s, w)\n"},
    {"sum_as_product", "graph 1\nx = input f32[6,8]\ny = sum(x) dim=1\n",
     "graph 1\nx = input f32[6,8]\no = constant() dims=[8,1] type=f32\ny = matmul(x, o)\n"},
    {"product_as_sum", "graph 1\nx = input f32[6,8]\no = constant() dims=[8,1] type=f32\ny = matmul(x, o)\n",
     "graph 1\nx = input f32[6,8]\ny = sum(x) dim=1\n"},
    {"reassociate_right", kX + "v = input f32[5,4]\np = matmul(x, w)\ny = matmul(p, v)\n",
     kX + "v = input f32[5,4]\np = matmul(w, v)\ny = matmul(x, p)\n"},
    {"reassociate_left", kX + "v = input f32[5,4]\np = matmul(w, v)\ny = matmul(x, p)\n",
     kX + "v = input f32[5,4]\np = matmul(x, w)\ny = matmul(p, v)\n"},
    {"factor_common_operand", kX + "u = input f32[8,5]\np = matmul(x, w)\nq = matmul(x, u)\ny = add(p, q)\n",
     kX + "u = input f32[8,5]\ns = add(w, u)\ny = matmul(x, s)\n"},
    {"factor_common_operand", kX + "z = input f32[6,8]\np = matmul(x, w)\nq = matmul(z, w)\ny = sub(p, q)\n",
     kX + "z = input f32[6,8]\ns = sub(x, z)\ny = matmul(s, w)\n"},
    {"distribute_product", kX + "u = input f32[8,5]\ns = add(w, u)\ny = matmul(x, s)\n",
     kX + "u = input f32[8,5]\np = matmul(x, w)\nq = matmul(x, u)\ny = add(p, q)\n"},
    {"subtract_maximum", "graph 1\nx = input f32[6,8]\ne = exp(x)\ns = sum(e) dim=1\ny = div(e, s)\n",
     "graph 1\nx = input f32[6,8]\nm = max(x) dim=1\nz = sub_max(x, m)\ne = exp(z)\ns = sum(e) dim=1\ny = div(e, s)\n"},
};

TEST(Rewrite, EachRuleGivesWhatItsLawSays) {
  for (const Law& law : kLaws) {
    const Saturated result = saturated(law.from);
    EXPECT_TRUE(found(result, law.to)) << law.rule << "\n" << law.from;
    const bool named = std::any_of(result.graphs.begin(), result.graphs.end(), [&](const Rewritten& each) {
      return std::count(each.rules.begin(), each.rules.end(), law.rule) > 0;
    });
    EXPECT_TRUE(named) << law.rule;
  }
}

TEST(Rewrite, EveryRuleIsTried) {
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(std::any_of(std::begin(kLaws), std::end(kLaws), [&](const Law& law) { return law.rule == rule.name; }))
        << rule.name;
  }
}

TEST(Rewrite, AllThatItFindsIsEqual) {
  for (const std::string& text : {programs::kNaive, programs::kNormLinear, programs::kGated, programs::kLora,
                                  programs::kSoftcap, programs::kMasked, programs::kStable}) {
    const Saturated result = saturated(text);
    for (const Rewritten& each : result.graphs) {
      const Status status = prove_equal(result.graphs[0].graph, each.graph, 5, nullptr);
      EXPECT_TRUE(status.ok()) << status.message() << "\n" << to_text(each.graph);
    }
  }
}

TEST(Rewrite, MergesTheLowRankUpdateIntoTheWeights) {
  EXPECT_TRUE(found(saturated(programs::kLora), programs::kLoraMerged));
}

TEST(Rewrite, MovesTheDivisionPastTheSecondProduct) {
  EXPECT_TRUE(found(saturated(programs::kNaive), programs::kDivisionLast));
}

// Something else would be computed if these rules went further than their laws.
TEST(Rewrite, LeavesAloneWhatNoLawCovers) {
  const std::string x = "graph 1\nx = input f32[6,8]\n";
  const std::pair<const char*, std::string> not_covered[] = {
      {"scaling_past_linear",
       x + "u = input f32[8,8]\nc = input f32[1,8]\nd = div(x, c)\ny = matmul(d, u)\n"},  // mixed by the product
      {"scaling_past_linear", kX + "c = input f32[6,1]\nd = div(c, x)\ny = matmul(d, w)\n"},
      {"subtract_maximum", x + "e = exp(x)\ny = sum(e) dim=1\n"},  // not a quotient
      {"subtract_maximum", x + "e = exp(x)\ns = sum(e) dim=1\nt = square(s)\ny = div(e, t)\n"},
      {"subtract_maximum", x + "e = exp(x)\ns = sum(e) dim=1\ny = div(e, s)\noutputs y, s\n"},
      {"product_as_sum", x + "w = input f32[8,1]\ny = matmul(x, w)\n"},  // a column, but not of ones
      {"product_as_sum", x + "w = constant() c=2 dims=[8,1] type=f32\ny = matmul(x, w)\n"},
      {"factor_common_operand", kX + "a = matmul(x, w)\nv = input f32[5,8]\nb = matmul(x, v) tb=1\ny = add(a, b)\n"},
      {"natural_exponent", x + "s = scale(x) c=1.44\ny = exp2(s)\n"},
  };
  for (const auto& [rule, text] : not_covered)
    EXPECT_EQ(saturated(text).report.rules.count(rule), 0U) << rule << "\n" << text;
}

TEST(Rewrite, KeepsToItsBoundAndSaysSo) {
  const Saturated some = saturated(programs::kSoftcap, 4), all = saturated(programs::kSoftcap, 64);
  EXPECT_EQ(some.graphs.size(), 4U);
  EXPECT_FALSE(some.report.exhausted);
  EXPECT_GT(all.graphs.size(), 4U);
  EXPECT_TRUE(all.report.exhausted);
}

// Both softmaxes of a graph have theirs where the bound leaves room for one graph: no program of it overflows.
TEST(Rewrite, TakesAllMaximaOffBeforeAllElse) {
  const std::string text =
      kX + "v = input f32[5,8]\nz = matmul(x, w)\nu = matmul(z, v)\ne = exp(u)\ns = sum(e) dim=1\np = div(e, s)\n" +
      "q = matmul(p, w)\nf = exp(q)\nt = sum(f) dim=1\ny = div(f, t)\n";
  const Saturated result = saturated(text, 3);
  ASSERT_GE(result.graphs.size(), 2u);
  const Rewritten& safe = result.graphs[1];  // no name is to be opened
  EXPECT_EQ(std::count(safe.rules.begin(), safe.rules.end(), kSubtractMaximum), 2);
  const auto taken_off = [](const KernelNode& node) { return node.op == Op::kSubMax; };
  EXPECT_EQ(std::count_if(safe.graph.nodes().begin(), safe.graph.nodes().end(), taken_off), 2);
  EXPECT_FALSE(result.report.exhausted);
}

TEST(Rewrite, CountsWhatItMetAgain) {
  const Saturated result = saturated(programs::kLora);
  EXPECT_EQ(result.report.rewrites.kept, static_cast<std::int64_t>(result.graphs.size()));
  EXPECT_GT(result.report.rewrites.pruned_for(Reason::kDuplicate), 0);
  EXPECT_EQ(result.report.rewrites.explored, result.report.rewrites.kept + pruned(result.report.rewrites));
}

TEST(Shift, FollowsAMaximumThroughOperators) {
  const Shift free, weight = {3, 1, 0}, score = {3, 0, -1}, maximum = {3, 0, 1};
  EXPECT_EQ(shift_of(Op::kSubMax, {free, maximum}), score);
  EXPECT_EQ(shift_of(Op::kExp, {score}), (Shift{3, -1, 0}));
  EXPECT_EQ(shift_of(Op::kMatmul, {weight, free}), weight);
  EXPECT_EQ(shift_of(Op::kDiv, {weight, weight}), free);
  EXPECT_EQ(shift_of(Op::kMul, {weight, weight}), (Shift{3, 2, 0}));
  EXPECT_EQ(shift_of(Op::kTanh, {weight}), std::nullopt);
  EXPECT_EQ(shift_of(Op::kAdd, {weight, free}), std::nullopt);
  EXPECT_EQ(shift_of(Op::kScale, {score}), std::nullopt);
  EXPECT_EQ(shift_of(Op::kAdd, {weight, {4, 1, 0}}), std::nullopt);  // of two maxima
}

}  // namespace
}  // namespace gqa

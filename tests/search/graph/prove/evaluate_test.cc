// evaluate_test.cc: the reference evaluation, against plain loops written here.
#include "search/graph/prove/evaluate.h"

#include "search/graph/attention/attention_program.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

double value_of(std::string_view op, Attributes attributes, std::vector<double> operands) {
  KernelBuilder graph;
  std::vector<int> inputs;
  std::vector<std::vector<double>> values;
  for (const double x : operands) {
    inputs.push_back(graph.input({{1}}));
    values.push_back({x});
  }
  graph.add(find_op(op)->op, inputs, std::move(attributes));
  return values_of(finish(graph), values)[0][0];
}

TEST(Evaluate, ElementwiseOperators) {
  Attributes bounds;
  bounds.low = -1;
  bounds.high = 2;
  EXPECT_DOUBLE_EQ(value_of("exp", {}, {1}), std::exp(1));
  EXPECT_DOUBLE_EQ(value_of("exp2", {}, {3}), 8);
  EXPECT_DOUBLE_EQ(value_of("sqrt", {}, {9}), 3);
  EXPECT_DOUBLE_EQ(value_of("rsqrt", {}, {4}), 0.5);
  EXPECT_DOUBLE_EQ(value_of("square", {}, {-3}), 9);
  EXPECT_DOUBLE_EQ(value_of("reciprocal", {}, {-4}), -0.25);
  EXPECT_DOUBLE_EQ(value_of("relu", {}, {-4}), 0);
  EXPECT_DOUBLE_EQ(value_of("relu", {}, {4}), 4);
  EXPECT_DOUBLE_EQ(value_of("silu", {}, {2}), 2 / (1 + std::exp(-2)));
  EXPECT_NEAR(value_of("gelu", {}, {1}), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value_of("gelu", {}, {-1}), -0.15865525393145707, 1e-15);
  EXPECT_DOUBLE_EQ(value_of("tanh", {}, {0.5}), std::tanh(0.5));
  EXPECT_DOUBLE_EQ(value_of("clamp", bounds, {-5}), -1);
  EXPECT_DOUBLE_EQ(value_of("clamp", bounds, {5}), 2);
  EXPECT_DOUBLE_EQ(value_of("scale", factor(3, 4), {2}), 1.5);
  EXPECT_DOUBLE_EQ(value_of("add_constant", factor(3), {2}), 5);
  EXPECT_DOUBLE_EQ(value_of("sub", {}, {2, 5}), -3);
  EXPECT_DOUBLE_EQ(value_of("div", {}, {2, 5}), 0.4);
  EXPECT_DOUBLE_EQ(value_of("mul", {}, {2, 5}), 10);
  EXPECT_DOUBLE_EQ(value_of("add", {}, {2, 5}), 7);
  EXPECT_EQ(value_of("sub_max", {}, {-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_EQ(value_of("sub_max", {}, {kInfinity, kInfinity}), 0);
  EXPECT_EQ(value_of("sub_max", {}, {3, kInfinity}), -kInfinity);
  EXPECT_EQ(value_of("normalize", {}, {0, 0}), 0);
  EXPECT_DOUBLE_EQ(value_of("normalize", {}, {1, 4}), 0.25);
}

TEST(Evaluate, ReductionsAlongEachDimension) {
  for (std::int64_t at = 0; at < 3; ++at) {
    KernelBuilder graph;
    const int x = graph.input({{2, 3, 4}});
    graph.add(Op::kSum, {x}, dim(at));
    graph.add(Op::kMax, {x}, dim(at));
    graph.add(Op::kMean, {x}, dim(at));
    const KernelGraph made = finish(graph);
    const auto inputs = random_inputs(made, 5);
    const auto outputs = values_of(made, inputs);
    const Dims dims = {2, 3, 4}, strides = {12, 4, 1};
    const auto size = static_cast<std::size_t>(dims[static_cast<std::size_t>(at)]);
    const auto step = static_cast<std::size_t>(strides[static_cast<std::size_t>(at)]);
    for (std::size_t to = 0; to < outputs[0].size(); ++to) {
      const std::size_t from = to / step * step * size + to % step;
      double sum = 0, most = -kInfinity;
      for (std::size_t k = 0; k < size; ++k) {
        sum += inputs[0][from + k * step];
        most = std::max(most, inputs[0][from + k * step]);
      }
      EXPECT_DOUBLE_EQ(outputs[0][to], sum);
      EXPECT_DOUBLE_EQ(outputs[1][to], most);
      EXPECT_DOUBLE_EQ(outputs[2][to], sum / static_cast<double>(size));
    }
  }
}

TEST(Evaluate, MatmulTransposedAndBroadcast) {
  const KernelGraph graph = graph_of(R"(graph 1
a = input f32[2,2,3]
b = input f32[3,4]
plain = matmul(a, b)
at = transpose(a) dims=[0,2,1]
bt = transpose(b) dims=[1,0]
both = matmul(at, bt) ta=1 tb=1
)");
  const auto inputs = random_inputs(graph, 3);
  KernelGraph marked = graph;
  ASSERT_TRUE(marked.mark_output(graph.find("plain")).ok());
  ASSERT_TRUE(marked.mark_output(graph.find("both")).ok());
  const auto outputs = values_of(marked, inputs);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 3; ++k) sum += inputs[0][i * 3 + k] * inputs[1][k * 4 + j];
      EXPECT_DOUBLE_EQ(outputs[0][i * 4 + j], sum);
    }
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(Evaluate, MaskIsAlignedBottomRight) {
  KernelBuilder graph;
  graph.add(Op::kMask, {graph.input({{2, 4}})}, window(1, 0));
  const auto out = values_of(finish(graph), {std::vector<double>(8, 1.0)})[0];
  const std::vector<double> expected = {-kInfinity, 1, 1, -kInfinity, -kInfinity, -kInfinity, 1, 1};
  EXPECT_EQ(out, expected);
}

TEST(Evaluate, SoftmaxOfARowThatSeesNothingIsZero) {
  KernelBuilder graph;
  const int masked = graph.add(Op::kMask, {graph.input({{3, 2}})}, window(kUnbounded, 0));
  graph.add(Op::kSoftmax, {masked}, dim(1));
  const auto out = values_of(finish(graph), {std::vector<double>(6, 800.0)})[0];
  EXPECT_EQ(out, (std::vector<double>{0, 0, 1, 0, 0.5, 0.5}));
}

TEST(Evaluate, RmsNorm) {
  KernelBuilder graph;
  graph.add(Op::kRmsNorm, {graph.input({{1, 2}}), graph.input({{2}})}, epsilon(0.5));
  const auto out = values_of(finish(graph), {{3, 4}, {2, 10}})[0];
  EXPECT_NEAR(out[0], 3 / std::sqrt(13.0) * 2, 1e-15);
  EXPECT_NEAR(out[1], 4 / std::sqrt(13.0) * 10, 1e-15);
}

TEST(Evaluate, Views) {
  const KernelGraph graph = graph_of(R"(graph 1
x = input f16[2,3]
u = unsqueeze(x) dim=1
b = broadcast(u) dims=[2,2,3]
t = transpose(b) dims=[2,1,0]
)");
  EXPECT_EQ(values_of(graph, {{1, 2, 3, 4, 5, 6}})[0], (std::vector<double>{1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6}));
}

TEST(Evaluate, RoundsResultsToTheirTypes) {
  EXPECT_EQ(round_to(1.0 + 0x1p-11, ElementType::kF16), 1.0);
  EXPECT_EQ(round_to(1.0 + 0x1.8p-10, ElementType::kF16), 1.0 + 0x1p-9);
  EXPECT_EQ(round_to(65519, ElementType::kF16), 65504);
  EXPECT_EQ(round_to(65520, ElementType::kF16), kInfinity);
  EXPECT_EQ(round_to(0x1p-25, ElementType::kF16), 0);
  EXPECT_EQ(round_to(0x1.8p-25, ElementType::kF16), 0x1p-24);
  EXPECT_EQ(round_to(1.0 + 0x1p-8, ElementType::kBF16), 1.0);
  EXPECT_EQ(round_to(0.1, ElementType::kF32), static_cast<double>(0.1f));
  KernelBuilder graph;
  graph.add(Op::kScale, {graph.input({{1}})}, factor(0.1));
  std::vector<std::vector<double>> out;
  ASSERT_TRUE(evaluate(finish(graph), {{1}}, &out, Rounding::kResults).ok());
  EXPECT_EQ(out[0][0], 0.0999755859375);
}

TEST(Evaluate, RefusesInputsThatDoNotFit) {
  const KernelGraph graph = softmax_attention(1, 2, 4, 2);
  std::vector<std::vector<double>> out;
  EXPECT_EQ(evaluate(graph, {{1}}, &out).message(), "1 inputs: expected 3, as the graph has");
  EXPECT_EQ(evaluate(graph, {std::vector<double>(4), std::vector<double>(8), std::vector<double>(7)}, &out).message(),
            "input 'v' of 7 values: expected 8 for [1,4,2]");
}

struct Tiling {
  const char *problem, *candidate;
};

class AttentionProgram : public testing::TestWithParam<Tiling> {};

TEST_P(AttentionProgram, GivesTheNaiveGraphsValues) {
  const Problem problem = problem_of(GetParam().problem);
  const KernelGraph naive = attention_graph(problem);
  const KernelGraph tiled = attention_program(problem, candidate_of(GetParam().candidate));
  ASSERT_FALSE(tiled.nodes().empty());
  for (const double scale : {1.0, 40.0}) {
    const auto inputs = random_inputs(naive, 11, scale);
    expect_near(values_of(tiled, inputs)[0], values_of(naive, inputs)[0], 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionProgram,
    testing::Values(Tiling{"hq=2,sq=32,sk=48,d=32,causal", "flash m=16 n=16 warps=1 stages=1 pack=1"},
                    Tiling{"hq=2,hk=1,sq=33,sk=41,d=32,dv=64,causal", "flash m=16 n=16 warps=1 stages=1 pack=2"},
                    Tiling{"b=2,hq=6,hk=2,sq=1,sk=100,d=32", "split m=16 n=16 warps=2 stages=1 pack=3 splits=3"},
                    Tiling{"hq=4,hk=2,sq=20,sk=9,d=32,causal", "flash m=16 n=16 warps=1 stages=1 pack=1"},
                    Tiling{"hq=2,sq=40,sk=70,d=32,causal", "split m=16 n=16 warps=1 stages=1 pack=1 splits=4"},
                    Tiling{"hq=2,sq=40,sk=20,d=32,causal", "split m=16 n=16 warps=1 stages=1 pack=1 splits=7"}));

}  // namespace
}  // namespace gqa

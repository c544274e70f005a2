// Tile kernels run, on the emulator: block graphs with ragged tiles, plain operators and what the search makes of
// users' graphs give what evaluate() gives, read and write nothing else, and do not depend on the order of threads.
#include <gtest/gtest.h>

#include "tests/simt/kernels/tile_support.h"

namespace gqa::simt {
namespace {

#define REQUIRE_EMULATOR() \
  if (const char* why = unavailable()) GTEST_SKIP() << why

void expect_block(const std::string& text, const ThreadPlan& threads) {
  const KernelGraph graph = graph_of(text);
  expect_equals(graph, {kernel_of(graph, graph.nodes()[0], threads)}, graph);
}

TEST(TileKernel, RootMeanSquareAndProductInOneLoop) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kNormed, tile_threads(4, 3));
}

TEST(TileKernel, RootMeanSquareBeforeTheLoop) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kNormedFirst, tile_threads(4, 3));
}

TEST(TileKernel, NormedRowsInPlace) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kNormedWhole, tile_threads(2, 1));
}

TEST(TileKernel, TwoProductsInOneAccumulator) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kLora, tile_threads(4, 2));
}

TEST(TileKernel, SingleProductsAndMaxima) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kSingle, tile_threads(1, 2));
}

TEST(TileKernel, RunningMaximumOverTransposedKeys) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kTransposed, tile_threads(4, 3));
}

TEST(TileKernel, StoresOfEachStep) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kEachStep, tile_threads(2, 3));
}

TEST(TileKernel, WholeRows) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kRows, tile_threads(4, 1));
}

// ---- what the search makes of users' graphs

class TileSearch : public ::testing::TestWithParam<std::size_t> {};

TEST_P(TileSearch, ProgramsAreAsExactAsTheirGraphs) {
  REQUIRE_EMULATOR();
  const KernelGraph graph = graph_of(tiles::kUsers[GetParam()]);
  for (const RankedProgram& ranked : search(graph, "", 2).programs) {
    const KernelGraph& program = ranked.program.graph;
    expect_passes(program, kernels_of(program, hopper()), graph);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Users, TileSearch, ::testing::Range(std::size_t{0}, std::size(tiles::kUsers)));

// ---- plain operators

class TilePlain : public ::testing::TestWithParam<const char*> {};

TEST_P(TilePlain, GivesWhatEvaluateGives) {
  REQUIRE_EMULATOR();
  const KernelGraph graph = graph_of(std::string("graph 1\n") + GetParam() + "\n");
  const TileKernel kernel = kernel_of(graph, graph.nodes()[0], tile_threads(4, 1));
  expect_equals(graph, {kernel}, graph);
}

INSTANTIATE_TEST_SUITE_P(
    Operators, TilePlain,
    ::testing::Values("a = input bf16[7,100]\nb = input bf16[100,33]\ny = matmul(a, b)",
                      "a = input f16[2,3,40,8]\nb = input f16[3,24,40] strides=[960,1,24]\ny = matmul(a, b) ta=1 tb=1",
                      "a = input f32[3,70]\nb = input f32[2,70,9]\ny = matmul(a, b)",
                      "a = input bf16[2,70,33]\nb = input bf16[1,33,70]\ny = matmul(a, b) tb=1 ta=1",
                      "a = input f32[3,5]\nb = input f32[5]\ny = add(a, b)",
                      "a = input bf16[4,1,5] strides=[11,5,2]\nb = input bf16[3,1]\ny = sub(a, b)",
                      "a = input bf16[5,9]\ny = softmax(a) dim=0", "a = input f16[5,200]\ny = softmax(a) dim=1",
                      "a = input bf16[3,70]\nb = input bf16[70]\ny = rms_norm(a, b) eps=1e-05",
                      "a = input bf16[2,3,70]\ny = mean(a) dim=1", "a = input bf16[70,3]\ny = max(a) dim=0",
                      "a = input f16[2,6,9]\ny = mask(a) left=3 right=0",
                      "a = input f16[2,6,9]\ny = transpose(a) dims=[2,0,1]",
                      "a = input f16[6,1]\ny = broadcast(a) dims=[4,6,9]", "a = input f16[6,1]\ny = squeeze(a) dim=1",
                      "a = input f16[6,3]\ny = unsqueeze(a) dim=1", "y = constant() c=0.1 dims=[4,5] type=f32"));

// All functions of one element, in one kernel; sub_max and normalize where there is nothing to see.
TEST(TileKernel, Functions) {
  REQUIRE_EMULATOR();
  std::string text = "graph 1\nx = input f32[3,50]\nz = input f32[3,1]\ncustom(x, z) grid=[1] steps=1\n  before:\n" +
                     std::string("  t = load(0) grid=[-]\n  u = load(1) grid=[-]\n");
  const char* const operators[] = {"exp(t)",
                                   "exp2(t)",
                                   "sqrt(t)",
                                   "rsqrt(t)",
                                   "square(t)",
                                   "reciprocal(t)",
                                   "relu(t)",
                                   "silu(t)",
                                   "gelu(t)",
                                   "tanh(t)",
                                   "clamp(t) lo=-0.25",
                                   "clamp(t) lo=-0.25 hi=0.3",
                                   "sub_max(t, u)",
                                   "normalize(t, u)",
                                   "div(u, t)",
                                   "scale(t) c=-2.5 count=7",
                                   "max(t) dim=1",
                                   "add_constant(t) c=-0.125"};
  std::string stores;
  int number = 0;
  for (const std::string op : operators) {
    const std::string node = "n" + std::to_string(number++), columns = op[0] == 'm' ? "1" : "50";
    text += "  " + node + " = " + op + "\n";
    stores += "  store(" + node + ") -> r" + node + " f32[3," + columns + "] grid=[-]\n";
  }
  const KernelGraph graph = graph_of(text + stores + "end\n");
  std::vector<std::vector<double>> inputs = rounded_inputs(graph, 3);
  inputs[0][4] = -kInfinity;
  inputs[0][60] = inputs[1][1] = 0;
  inputs[0][70] = 20;
  inputs[0][71] = -90;
  inputs[0][130] = inputs[1][2] = kInfinity;
  expect_equals(graph, {kernel_of(graph, graph.nodes()[0], tile_threads(2, 1))}, graph, inputs);
}

// What has no key gives 0, not NaN; what is not a number stays so.
TEST(TileKernel, RowsWithoutAKeyAndNumbersThatAreNone) {
  REQUIRE_EMULATOR();
  const KernelGraph softmax = graph_of("graph 1\na = input f32[2,3]\ny = softmax(a) dim=1\n");
  const double none = -kInfinity, nan = std::nan("");
  expect_equals(softmax, {kernel_of(softmax, softmax.nodes()[0], {})}, softmax, {{none, none, none, 1, none, 2}});
  expect_equals(softmax, {kernel_of(softmax, softmax.nodes()[0], {})}, softmax, {{-none, 3, none, -none, 1, -none}});
  const KernelGraph largest = graph_of("graph 1\na = input f32[2,3]\ny = max(a) dim=1\n");
  TileProgram program(largest, {kernel_of(largest, largest.nodes()[0], {})});
  std::vector<std::vector<double>> outputs;
  ASSERT_TRUE(program.run({{1, nan, 2, none, none, none}}, {}, &outputs).ok());
  EXPECT_TRUE(std::isnan(outputs[0][0]));
  EXPECT_EQ(none, outputs[0][1]);
}

}  // namespace
}  // namespace gqa::simt

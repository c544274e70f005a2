// Programs of graphs on the emulator, tensor cores' 16-bit operands and all, at magnitudes at which range or rounding
// decides: finite where evaluating operator by operator is, and as exact.
#include <gtest/gtest.h>

#include <set>

#include "tests/harness/verdicts.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/simt/kernels/tile_support.h"

namespace gqa::simt {
namespace {

constexpr std::size_t kPrograms = 40;  // of which the best of each kind runs
constexpr double kMostTimes = 1.5;     // operator by operator's error

// A graph, and sets of its inputs' deviations.
struct AtMagnitudes {
  const char* name;
  std::string text;
  std::vector<std::vector<double>> deviations;
};

const AtMagnitudes kAtMagnitudes[] = {
    {"WeightedNorm",
     "graph 1\nx = input f16[16,160]\ng = input f16[160]\nw = input f16[160,72]\nn = rms_norm(x, g) eps=1e-06\n"
     "y = matmul(n, w)\n",
     {{1.5e4, 4, 1.0 / 32}, {1.0 / 256, 1.0 / 32, 16}}},
    {"WeightedNormInBfloat16",
     "graph 1\nx = input bf16[16,160]\ng = input bf16[160]\nw = input bf16[160,72]\nn = rms_norm(x, g) eps=1e-06\n"
     "y = matmul(n, w)\n",
     {{1.5e4, 4, 1.0 / 32}, {1.0 / 256, 1.0 / 32, 16}}},
    {"LowRankUpdate",
     "graph 1\nx = input f16[16,160]\nw = input f16[160,64]\na = input f16[160,16]\nb = input f16[16,64]\n"
     "p = matmul(x, w)\nh = matmul(x, a)\nr = matmul(h, b)\ny = add(p, r)\n",
     {{16, 1.0 / 16, 8, 1.0 / 32}, {1.0 / 512, 1, 1.0 / 16, 16}}},
    {"LowRank",
     "graph 1\nx = input f16[32,16]\na = input f16[16,64]\nb = input f16[64,32]\nh = matmul(x, a)\ny = matmul(h, b)\n",
     {{1.0 / 64, 32, 128}, {1.0 / 512, 128, 1.0 / 16}}},
};

class ProgramsAtMagnitudes : public ::testing::TestWithParam<AtMagnitudes> {};

// Absolute values: sums that do not cancel.
std::vector<std::vector<double>> inputs_of(const KernelGraph& graph, const std::vector<double>& deviations) {
  std::vector<std::vector<double>> inputs = random_inputs(graph, 5);
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    for (double& x : inputs[at])
      x = round_to(std::min(65504.0, std::abs(x) * deviations[at]), graph.spec(graph.inputs()[at]).type);
  }
  return inputs;
}

double distance(const std::vector<double>& found, const std::vector<double>& exact) {
  double squares = 0;
  for (std::size_t at = 0; at < exact.size(); ++at) squares += (found[at] - exact[at]) * (found[at] - exact[at]);
  return std::sqrt(squares);
}

void judge(const KernelGraph& program, const std::vector<TileKernel>& kernels, const KernelGraph& user,
           const std::vector<std::vector<double>>& deviations) {
  TileProgram tiles(program, kernels);
  ASSERT_TRUE(tiles.compiled());
  for (const std::vector<double>& each : deviations) {
    const auto inputs = inputs_of(user, each);
    std::vector<std::vector<double>> naive, outputs;
    ASSERT_TRUE(evaluate(user, inputs, &naive, Rounding::kResults).ok());
    const std::vector<double> exact = values_of(user, inputs)[0];
    const double allowed = distance(naive[0], exact);
    ASSERT_TRUE(std::isfinite(allowed)) << "operator by operator overflows: expected smaller inputs";
    const Status status = tiles.run(inputs, {Order::kRandom, Copies::kLate, 5}, &outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const double off = distance(outputs[0], exact);
    EXPECT_TRUE(off <= kMostTimes * allowed) << off << " off, operator by operator " << allowed;
  }
}

TEST_P(ProgramsAtMagnitudes, AreAsFiniteAndAsExactAsOperatorByOperator) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  const KernelGraph user = graph_of(GetParam().text);
  const SearchResult result = search(user, "", kPrograms);
  std::set<std::string> kinds;
  for (const RankedProgram& ranked : result.programs) {
    if (!kinds.insert(ranked.program.kind).second) continue;
    const KernelGraph& program = ranked.program.graph;
    const std::vector<TileKernel> kernels = kernels_of(program, hopper());
    expect_judged(program, kernels, [&] { judge(program, kernels, user, GetParam().deviations); });
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(kinds.count("loop") && kinds.size() > 2);
}

INSTANTIATE_TEST_SUITE_P(Search, ProgramsAtMagnitudes, ::testing::ValuesIn(kAtMagnitudes),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace gqa::simt

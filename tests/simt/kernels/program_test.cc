// Programs that the search found for small ragged graphs, generated, compiled and run on the CPU, against what the
// user's graph evaluates to; and every plain operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/harness/verdicts.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/small_graphs.h"
#include "tests/simt/kernels/program_run.h"

namespace gqa::simt {
namespace {

struct Tolerance {
  double relative, absolute;
};

// What a result may be off by in its type, from inputs in theirs: sums of products round in float32, and 16-bit steps
// between.
Tolerance tolerance_of(const KernelGraph& graph) {
  Tolerance worst = {1e-4, 1e-4};
  for (const int input : graph.inputs()) {
    if (graph.spec(input).type == ElementType::kF16) worst = {4e-3, 4e-3};
    if (graph.spec(input).type == ElementType::kBF16) worst = {3e-2, 3e-2};
  }
  return worst;
}

std::vector<std::vector<double>> inputs_of(const KernelGraph& graph, double scale) {
  auto inputs = random_inputs(graph, 7, scale);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (double& value : inputs[i]) value = round_to(value, graph.spec(graph.inputs()[i]).type);
  return inputs;
}

::testing::AssertionResult near(const KernelGraph& graph, const std::vector<std::vector<double>>& given,
                                const std::vector<std::vector<double>>& expected) {
  const Tolerance tolerance = tolerance_of(graph);
  for (std::size_t o = 0; o < expected.size(); ++o)
    for (std::size_t i = 0; i < expected[o].size(); ++i) {
      const double right = expected[o][i], error = std::fabs(given[o][i] - right);
      if (!(given[o][i] == right || error <= tolerance.absolute + tolerance.relative * std::fabs(right)))
        return ::testing::AssertionFailure() << "output " << o << " element " << i << " of " << expected[o].size()
                                             << " is " << given[o][i] << ", expected " << right;
    }
  return ::testing::AssertionSuccess();
}

void judge_right(const KernelPlan& plan, const KernelGraph& user, double scale) {
  std::unique_ptr<ProgramRun> run;
  Status status = ProgramRun::compile(plan, &run);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto inputs = inputs_of(user, scale);
  std::vector<std::vector<double>> outputs;
  status = run->run(inputs, &outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(near(user, outputs, values_of(user, inputs)));
}

// Runs a program with thread plans under every schedule, against the values that the user's graph has.
void expect_right(const KernelGraph& program, const KernelGraph& user, double scale = 0.5) {
  SCOPED_TRACE(to_text(program));
  KernelPlan plan;
  const Status status = plan_kernels(program, &plan);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto judge = [&] { judge_right(plan, user, scale); };
  EXPECT_TRUE(test::verdict(subject_of(plan), [&] { return test::no_failure_of(judge); }));
}

class Programs : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

std::string of_type(std::string graph, const std::string& type) {
  for (std::size_t at = graph.find("f32"); at != std::string::npos; at = graph.find("f32", at))
    graph.replace(at, 3, type);
  return graph;
}

// Sizes that tiles do not divide; most in the types that tensor cores multiply.
const std::string kUsers[] = {
    programs::kSmall[0],
    programs::kSmall[1],
    of_type(programs::kSmall[2], "bf16"),
    of_type(programs::kSmall[3], "bf16"),
    of_type(programs::kSmall[4], "f16"),
    of_type(programs::kSmall[5], "bf16"),
    programs::kSmall[6],
    R"(graph 1
x = input bf16[13,200]
m = input bf16[13,200]
y = softmax(x) dim=-1
z = add(y, m)
)",
};

// Programs of each user's graph that differ in what they do, under their most promising plans.
TEST_P(Programs, ComputeWhatTheUserWrote) {
  const KernelGraph user = graph_of(GetParam());
  std::set<std::string> kinds;
  for (const RankedProgram& ranked : search(user, "", 40).programs) {
    if (!ranked.program.safe || kinds.size() >= 2) continue;
    std::string kind;
    for (const KernelNode& node : ranked.program.graph.nodes()) {
      kind += node.block != nullptr ? "custom" + std::to_string(node.block->nodes.size()) : std::string(name(node.op));
      kind += node.block != nullptr && node.block->steps > 1 ? "loop " : " ";
    }
    if (!kinds.insert(kind).second) continue;
    for (const KernelGraph& program : thread_plans(ranked.program.graph, hopper(), 1)) expect_right(program, user);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(kinds.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Search, Programs, ::testing::ValuesIn(kUsers));

}  // namespace
}  // namespace gqa::simt

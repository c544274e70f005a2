// A family's kernel in a graph's program: its constants come with the launch, and programs that differ in them alone
// have one source.
#include <gtest/gtest.h>

#include <string>

#include "runtime/workload/programs.h"
#include "tests/search/graph/enumerate/search_support.h"

namespace gqa {
namespace {

// The program of the flash kernel with a soft cap by the graph's constants.
Program capped(const std::string& scale, const std::string& cap) {
  std::string text = programs::kFlash;
  const std::string product = "s = matmul(qt, kt)";
  text.replace(text.find(product), product.size(),
               "a = matmul(qt, kt)\n  b = scale(a) c=" + scale + "\n  t = tanh(b)\n  s = scale(t) c=" + cap);
  KernelPlan plan;
  for (const KernelGraph& graph : thread_plans(graph_of(text), hopper(), 4))
    if (plan_kernels(graph, &plan).ok() && plan.kernels[0].family) break;
  Program program;
  const Status status = program_of(plan, DeviceKind::kCuda, &program);
  EXPECT_TRUE(status.ok()) << status.message();
  return program;
}

TEST(AttentionStep, BringsAGraphsConstants) {
  const Program program = capped("0.05", "20");
  ASSERT_EQ(program.steps.size(), 1U);
  ASSERT_TRUE(program.steps[0].attention() != nullptr && program.steps[0].attention()->fixed);
  const FixedAttention& fixed = *program.steps[0].attention()->fixed;
  EXPECT_EQ(fixed.problem.chain, softcap_chain());
  EXPECT_FLOAT_EQ(fixed.scale, 1);
  EXPECT_EQ(fixed.slots[kSoftcapSlot], 20);
  EXPECT_NE(program.sources[0].launch.find("scores=1"), std::string::npos) << program.sources[0].launch;
}

TEST(AttentionStep, OtherConstantsAreNoOtherSource) {
  const Program one = capped("0.05", "20"), other = capped("0.02", "50");
  EXPECT_EQ(one.sources[0].text, other.sources[0].text);
  EXPECT_NE(one.text, other.text);
  EXPECT_NE(one.steps[0].attention()->fixed->slots, other.steps[0].attention()->fixed->slots);
}

}  // namespace
}  // namespace gqa

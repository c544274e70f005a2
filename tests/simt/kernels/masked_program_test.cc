// Programs with a running maximum under masks, on the emulator: tiles that are hidden first, last and in the middle,
// parts over keys of which one sees none, rows without a key.
#include <gtest/gtest.h>

#include "tests/harness/verdicts.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/masked_graphs.h"
#include "tests/simt/kernels/program_run.h"

namespace gqa::simt {
namespace {

constexpr masked::Shape kShape = {2, 20, 300, 16};

class MaskedKernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

void judge_bears_masks(const KernelPlan& plan, const KernelGraph& user, double tolerance) {
  std::unique_ptr<ProgramRun> run;
  Status status = ProgramRun::compile(plan, &run);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const masked::Mask& mask : masked::kMasks) {
    const auto inputs = masked::inputs_of(user, kShape, masked::kSpellings[0], mask);
    std::vector<std::vector<double>> outputs;
    status = run->run(inputs, {Order::kRandom, Copies::kLate, 5}, &outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(masked::matches(outputs[0], values_of(user, inputs)[0], tolerance)) << mask.name;
  }
}

void expect_bears_masks(const KernelGraph& program, const KernelGraph& user, double tolerance) {
  const std::vector<KernelGraph> planned = thread_plans(program, hopper(), 1);
  ASSERT_EQ(planned.size(), 1U);
  SCOPED_TRACE(to_text(planned[0]));
  KernelPlan plan;
  const Status status = plan_kernels(planned[0], &plan);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto judge = [&] { judge_bears_masks(plan, user, tolerance); };
  EXPECT_TRUE(test::verdict(subject_of(plan), [&] { return test::no_failure_of(judge); }));
}

TEST_P(MaskedKernels, OneKernelWithARunningMaximumAndPartsThatAreMerged) {
  const std::string type = GetParam();
  const KernelGraph user = graph_of(masked::text_of(masked::kSpellings[0], kShape, type));
  const SearchResult result = search(user, "", 40);
  const FoundProgram* flash = find_program(result, [](const KernelGraph& g) { return is_flash(g, 1, 1); });
  const FoundProgram* split = find_program(result, [](const KernelGraph& g) { return is_flash_decoding(g, 1, 1); });
  for (const FoundProgram* program : {flash, split}) {
    ASSERT_NE(program, nullptr);
    expect_bears_masks(program->graph, user, type == "f32" ? 2e-5 : 4e-3);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MaskedKernels, ::testing::Values("f16", "f32"));

}  // namespace
}  // namespace gqa::simt

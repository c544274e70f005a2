// The comparison of the verification kernels, run on the CPU: the worst element of out and the worst log-sum-exp are
// found; a call that asks for no log-sum-exp has no place for one, and none is read.
#include <gtest/gtest.h>

#include <cstring>

#include "jit/codegen.h"
#include "jit/device/check/check_params.h"
#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {
namespace {

float error_of(unsigned long long worst) {
  const auto bits = static_cast<unsigned>(worst >> 32);
  float error = 0;
  std::memcpy(&error, &bits, sizeof error);
  return error;
}

// All rows of a case whose out is 1 and whose lse is 2 everywhere, compared with a reference that differs in one
// element by 0.5 and in one row's lse by 0.25.
CheckResult compared(const Kernel& kernel, const Problem& problem) {
  test::AttentionCase attention(problem);
  std::fill(attention.out.begin(), attention.out.end(), store(problem.q_type, 1));
  std::fill(attention.lse.begin(), attention.lse.end(), 2.F);
  const CaseTensor out("out", attention.out, attention.call.out);
  const Buffer lse("lse", attention.lse);
  std::vector<long long> numbers(attention.lse.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<long long>(i);
  std::vector<float> expected(numbers.size() * static_cast<std::size_t>(problem.head_dim_v), 1.F);
  std::vector<float> expected_lse(numbers.size(), 2.F);
  expected[37] = 1.5F;
  expected_lse[2] = 2.25F;
  const Buffer rows("rows", numbers), reference("reference", expected), reference_lse("reference_lse", expected_lse);
  const Buffer result("result", std::vector<CheckResult>(1));

  Call call = attention.call;
  call.out = out.first();
  call.lse = call.lse == nullptr ? nullptr : lse.as<float>();
  AttentionParams params = params_of(call, Candidate());
  CheckParams check{};
  check.rows = rows.as<long long>();
  check.reference = reference.as<float>();
  check.reference_lse = reference_lse.as<float>();
  check.result = result.as<CheckResult>();
  check.head_dim = problem.head_dim;
  check.head_dim_v = problem.head_dim_v;
  check.bf16 = problem.q_type == DType::kBF16;
  void* arguments[] = {&params, &check};
  const Status status = kernel.launch({{static_cast<unsigned>(numbers.size()), 1, 1}, {128, 1, 1}, 0, arguments});
  EXPECT_TRUE(status.ok()) << status.message();
  return result.values<CheckResult>().front();
}

TEST(Check, LogSumExpIsComparedWhereItIsAskedFor) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  std::string why;
  const auto kernel = Kernel::compile(check_source(), "gqa_compare", &why);
  ASSERT_NE(nullptr, kernel) << why;
  const std::string text = "b=1,hq=2,hk=1,sq=3,sk=4,d=32";
  const CheckResult with = compared(*kernel, test::problem_of(text));
  EXPECT_EQ(0.5F, error_of(with.worst));
  EXPECT_EQ(37U, with.worst & 0xffffffffU);
  EXPECT_EQ(0.25F, error_of(with.worst_lse));
  EXPECT_EQ(2U, with.worst_lse & 0xffffffffU);
  const CheckResult without = compared(*kernel, test::problem_of(text + ",lse=0"));
  EXPECT_EQ(with.worst, without.worst);
  EXPECT_EQ(0U, without.worst_lse);
}

}  // namespace
}  // namespace gqa::simt

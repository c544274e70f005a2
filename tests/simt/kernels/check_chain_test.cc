// The verification kernels' reference of problems with a chain on scores or a sink, run on the CPU against float64; and
// every operator that a chain may have is one of their steps.
#include "runtime/cuda/trial/check_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "jit/codegen.h"
#include "jit/device/check/check_params.h"
#include "search/graph/ir/op.h"
#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {
namespace {

TEST(CheckChain, KnowsEveryOperatorOfAChain) {
  for (int at = 0; at <= static_cast<int>(Op::kCustom); ++at) {
    CheckStep step{};
    EXPECT_EQ(check_step_of(static_cast<Op>(at), &step), chain_takes(static_cast<Op>(at))) << name(static_cast<Op>(at));
  }
}

// The largest difference of the reference's out and log-sum-exp from float64, over all rows.
double reference_error(const Kernel& kernel, const std::string& text) {
  test::AttentionCase attention(test::problem_of(text));
  const Problem& p = attention.call.problem;
  const CaseTensor q("q", attention.q, attention.call.at(Role::kQ)), k("k", attention.k, attention.call.at(Role::kK)),
      v("v", attention.v, attention.call.at(Role::kV));
  std::vector<long long> numbers(attention.lse.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<long long>(i);
  const auto dim = static_cast<std::size_t>(p.head_dim_v);
  const Buffer sink("sink", attention.sink);
  const ArrayBuffers arrays(attention.arrays);
  const Buffer rows("rows", numbers), out("reference", std::vector<double>(numbers.size() * dim)),
      lse("reference_lse", std::vector<float>(numbers.size())), units("units", std::vector<float>(2 * numbers.size())),
      result("result", std::vector<CheckResult>(1));
  Call call = attention.call;
  call.place(Role::kQ, q.first());
  call.place(Role::kK, k.first());
  call.place(Role::kV, v.first());
  arrays.give(&call);
  AttentionParams params = params_of(call, Candidate());
  CacheParams cache = cache_params_of(call);
  CheckParams check{};
  check.rows = rows.as<long long>();
  check.reference = out.as<double>();
  check.reference_lse = lse.as<float>();
  check.units = units.as<float>();
  check.result = result.as<CheckResult>();
  check.scale = call.scale;
  check.head_dim = p.head_dim;
  check.head_dim_v = p.head_dim_v;
  check.causal = p.causal();
  check.type = static_cast<int>(p.q_type);
  check.vectors = 1;
  check.chain = check_chain_of(call);
  check.chain.sink = p.sink ? sink.as<float>() : nullptr;
  void* arguments[] = {&params, &check, &cache};
  const Status status = kernel.launch({{static_cast<unsigned>(numbers.size()), 1, 1}, {128, 1, 1}, 0, arguments});
  EXPECT_TRUE(status.ok()) << status.message();
  const test::Float64& right = test::float64_of(attention);
  const std::vector<double> given = out.values<double>();
  const std::vector<float> given_lse = lse.values<float>();
  double worst = 0;
  for (std::size_t i = 0; i < given.size(); ++i) worst = std::max(worst, std::fabs(given[i] - right.out[i]));
  for (std::size_t i = 0; i < given_lse.size(); ++i)
    if (double{given_lse[i]} != right.lse[i]) worst = std::max(worst, std::fabs(double{given_lse[i]} - right.lse[i]));
  return worst;
}

TEST(CheckChain, ReferenceIsFloat64s) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  std::string why;
  const auto kernel = Kernel::compile(check_source(), "gqa_reference", &why);
  ASSERT_NE(nullptr, kernel) << why;
  for (const char* chain :
       {"", ",sink", ",softcap,sink", ",softcap", ",scores=add1+relu", ",scores=mul2+silu+sub3+div1",
        ",scores=gelu+exp2", ",scores=square+add1+rsqrt", ",scores=exp+reciprocal+sqrt", ",scores=sub3+clamp1",
        ",scores=mulhead", ",scores=mulrow+tanh+mul0", ",scores=div0+tanh+mul0+addtensor", ",scores=addtensor32,sink"})
    EXPECT_LT(reference_error(*kernel, std::string("b=1,hq=2,hk=1,sq=3,sk=20,d=32,causal") + chain), 2e-5) << chain;
  // rows that see no key
  EXPECT_LT(reference_error(*kernel, "b=1,hq=3,hk=1,sq=9,sk=4,d=32,causal,sink"), 2e-5);
}

}  // namespace
}  // namespace gqa::simt

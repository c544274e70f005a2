// program_reference_timed_test.cc: what the reference of a large graph costs.
#include <string>

#include "runtime/verify/program_reference.h"
#include "tests/sanitized.h"
#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

// Verification must not be what a user waits for, however large the graph: layers and attentions of real models.
TEST(SampledReference, TakesAShareOfTheBudget) {
  if (!test::kOptimised) GTEST_SKIP() << test::kNeedsOptimisation;
  for (const char* text :
       {"graph 1\nx = input bf16[512,4096]\nw1 = input bf16[4096,11008]\nw3 = input bf16[4096,11008]\n"
        "a = matmul(x, w1)\ng = silu(a)\nb = matmul(x, w3)\ny = mul(g, b)\n",
        "graph 1\nq = input f16[32,4096,128]\nk = input f16[32,128,4096]\nv = input f16[32,4096,128]\n"
        "s = matmul(q, k)\nm = mask(s) right=0\np = softmax(m) dim=2\no = matmul(p, v)\n"}) {
    ProgramReference reference;
    const Effort effort(1);
    ASSERT_TRUE(make_reference(graph_of(text), 1, effort, 2, &reference).ok());
    EXPECT_LT(effort.seconds(), 2);  // 0.5 on two free cores
    EXPECT_GT(reference.outputs[0].values.size(), 1000U);
  }
}

}  // namespace
}  // namespace gqa

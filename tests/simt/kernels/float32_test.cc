// float32_test.cc: what a trial makes of kernels that multiply float32 by terms, on its hard queries: three products
// pass, and no silent loss of mantissa does: a product of terms that is left out, sums over all keys that stay in the
// tensor core, elements that are not split.
#include <gtest/gtest.h>

#include "tests/simt/kernels/checked_case.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr char kHeader[] = "attention/common/split_products.cuh";

struct Kind {
  const char *problem, *candidate;
};
constexpr Kind kFlash = {"hq=4,hk=2,sq=70,sk=600,d=128,dtype=f32,causal",
                         "flash m=64 n=32 warps=4 stages=2 pack=1 terms="};
constexpr Kind kSplit = {"hq=12,hk=2,sq=2,sk=900,d=64,dtype=f32", "split m=16 n=32 warps=2 stages=2 pack=6 terms="};

::testing::AssertionResult passes(const Kind& kind, int terms,
                                  const std::vector<EmbeddedHeader>& headers = embedded_headers()) {
  const Problem problem = test::problem_of(kind.problem);
  Candidate candidate;
  EXPECT_TRUE(parse(kind.candidate + std::to_string(terms), &candidate).ok());
  return judged({attention_source(problem, candidate), headers}, [&](const Kernel& kernel) {
    CheckedCase c(kind.problem);
    const Status status = run_attention(kernel, candidate, &c.attention);
    if (!status.ok()) return ::testing::AssertionFailure() << status.message();
    const Verdict verdict = c.verdict();
    return verdict.passed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << verdict.reason;
  });
}

class Float32Trial : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_F(Float32Trial, ThreeProductsOfTermsPass) {
  for (const Kind& kind : {kFlash, kSplit}) EXPECT_TRUE(passes(kind, 3)) << kind.problem;
}

TEST_F(Float32Trial, FewerDoNot) {
  for (const Kind& kind : {kFlash, kSplit})
    for (const int terms : {1, 2}) EXPECT_FALSE(passes(kind, terms)) << kind.problem << " " << terms;
}

TEST_F(Float32Trial, SumsThatStayInTheTensorCoreDoNot) {
  const auto values = planted(kHeader, R"(mma_split<kTerms>(part[m], p[m][k], v, part[m]);)",
                              R"(mma_split<kTerms>(out[m][n], p[m][k], v, out[m][n]);)");
  for (const Kind& kind : {kFlash, kSplit}) EXPECT_FALSE(passes(kind, 3, values)) << kind.problem;
}

TEST_F(Float32Trial, TermsThatLoseTheirLowOnesDoNot) {
  EXPECT_FALSE(passes(kFlash, 3, planted(kHeader, "low = rounded(x - rounded_to);", "low = 0;")));
}

}  // namespace
}  // namespace gqa::simt

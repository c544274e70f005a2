// NaN and infinities in keys and values outside the windows of all rows, run on the CPU: they never show. (Those past
// lengths and in pages of others: flash_cache_test.cc, cache_mutants_test.cc and warpgroup/cache_test.cc.)
#include <gtest/gtest.h>

#include "tests/runtime/hidden_keys_case.h"
#include "tests/simt/kernels/agreement.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char* kFlash = "flash m=32 n=16 warps=2 stages=2 pack=1";
constexpr const char* kParts = "split m=16 n=32 warps=2 stages=2 pack=2 splits=3";
constexpr const char* kWhole = "split m=16 n=16 warps=2 stages=2 pack=2 splits=1";

::testing::AssertionResult right(const char* problem, const char* candidate_text,
                                 const std::vector<EmbeddedHeader>& headers = embedded_headers()) {
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  test::AttentionCase attention(test::problem_of(problem));
  test::poison_hidden_keys(&attention);
  return judged({attention_source(attention.call.problem, candidate), headers},
                [&](const Kernel& kernel) { return attention_agrees(kernel, candidate, &attention); });
}

TEST(HiddenKeys, NeverShow) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* problem : test::kHidingProblems)
    for (const char* candidate : {kFlash, kParts, kWhole}) EXPECT_TRUE(right(problem, candidate)) << candidate;
}

TEST(HiddenKeys, AreSeenWhereTheyAreBrought) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* candidate : {kFlash, kParts})
    EXPECT_FALSE(right(test::kHidingProblems[0], candidate,
                       planted("attention/common/walk.cuh", "Between{begin(first_row), end(first_row)}",
                               "Between{0, end(first_row)}")));
}

}  // namespace
}  // namespace gqa::simt

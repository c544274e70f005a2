// Chains of steps on scores whose numbers come with the launch, run on the CPU against float64: a soft cap and others
// in every family, beside masks, packed heads, several parts and caches; and the faults that must be seen.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/agreement.h"
#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"
#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

constexpr const char* kFlash = "flash m=32 n=16 warps=2 stages=2 pack=1";
constexpr const char* kParts = "split m=16 n=16 warps=2 stages=2 pack=2 splits=3";
constexpr const char* kWarpAttention = "attention/common/warp_attention.cuh";
constexpr const char* kFeatures = "attention/common/features.cuh";
constexpr const char* kChainArrays = "attention/common/chain_arrays.cuh";

struct Case {
  const char *problem, *candidate;
};

class ScoreChainKernel : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_P(ScoreChainKernel, AgreesWithFloat64UnderEverySchedule) {
  EXPECT_TRUE(agrees_with_float64(GetParam().problem, GetParam().candidate, embedded_headers()));
}

INSTANTIATE_TEST_SUITE_P(
    Softcap, ScoreChainKernel,
    ::testing::Values(Case{"b=2,hq=4,hk=2,sq=70,sk=70,d=64,causal,softcap", "flash m=64 n=32 warps=4 stages=2 pack=1"},
                      Case{"b=1,hq=4,hk=1,sq=19,sk=61,d=80,align=2,softcap", "flash m=64 n=16 warps=2 stages=1 pack=4"},
                      Case{"b=1,hq=2,hk=1,sq=33,sk=90,d=64,dtype=f16,left=20,causal,softcap", kFlash},
                      Case{"b=2,hq=8,hk=2,sq=1,sk=300,d=64,softcap",
                           "split m=16 n=16 warps=4 stages=3 pack=4 splits=3"},
                      Case{"b=1,hq=4,hk=2,sq=7,sk=100,d=128,dtype=f16,causal,softcap", kParts},
                      Case{"b=3,hq=4,hk=2,sq=2,sk=150,d=64,causal,page=16,lens,softcap",
                           "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7"}));

INSTANTIATE_TEST_SUITE_P(Others, ScoreChainKernel,
                         ::testing::Values(Case{"b=1,hq=2,hk=1,sq=20,sk=40,d=64,scores=tanh", kFlash},
                                           Case{"b=1,hq=2,hk=1,sq=20,sk=40,d=64,scores=add1+relu", kFlash},
                                           Case{"b=1,hq=2,hk=1,sq=20,sk=40,d=64,scores=mul2+silu+sub3+div1", kFlash},
                                           Case{"b=1,hq=2,hk=1,sq=20,sk=40,d=64,causal,scores=mul0+div1", kFlash},
                                           Case{"b=1,hq=2,hk=1,sq=20,sk=40,d=64,causal,scores=sub3+clamp1", kFlash},
                                           Case{"b=1,hq=2,hk=1,sq=3,sk=100,d=64,scores=square+add1+rsqrt", kParts}));

TEST(ScoreChainCache, PagesLengthsAndWindows) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* candidate_text : {kFlash, kParts}) {
    test::CacheCase t("b=4,hq=2,hk=1,sq=5,sk=150,d=64,left=40,causal,lens,page=7,lse,softcap", {150, 0, 31, 64});
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    EXPECT_TRUE(judged({attention_source(t.call.problem, candidate)},
                       [&](const Kernel& kernel) { return cache_agrees(kernel, candidate, &t); }));
  }
}

class WarpgroupChain : public WarpgroupTest {};

TEST_P(WarpgroupChain, AgreesWithFloat64UnderEverySchedule) { EXPECT_TRUE(right_under(schedules())); }

INSTANTIATE_TEST_SUITE_P(
    Softcap, WarpgroupChain,
    ::testing::Values(WarpgroupCase{"b=1,hq=2,hk=1,sq=150,sk=200,d=64,causal,softcap",
                                    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0"},
                      WarpgroupCase{"b=1,hq=2,hk=1,sq=70,sk=300,d=128,dtype=f16,softcap",
                                    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1", 2},
                      WarpgroupCase{"b=1,hq=2,hk=1,sq=70,sk=300,d=64,softcap,lse=0",
                                    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 ones_column=1", 1}));

// One kernel serves every cap.
TEST(ScoreChainNumbers, OneKernelServesEveryCap) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  const char* problem = "b=1,hq=2,hk=1,sq=20,sk=60,d=64,causal,softcap";
  for (const float cap : {0.3F, 2.F, 50.F}) {
    const ScoreSlots slots = {cap};
    EXPECT_TRUE(agrees_with_float64(problem, kFlash, embedded_headers(), &slots)) << cap;
  }
}

TEST(ScoreChainMutants, AreSeen) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  const struct {
    const char *header, *from, *to;
  } faults[] = {
      // dropped, or left out for half of the scores
      {kChainArrays, "apply_chain<Config>(scores[m], numbers);", ";"},
      {kFeatures, "for (int c = 0; c < 4; ++c) scores[n][c] =", "for (int c = 0; c < 2; ++c) scores[n][c] ="},
      // after the mask: what is hidden gets the least score there is
      {kWarpAttention, "mask_row(scores[m], h, first_key, walk.limit(packed_row));",
       "mask_row(scores[m], h, first_key, walk.limit(packed_row));\n"
       "for (int n = 0; n < kScores; ++n)\n"
       "  for (int c = 2 * h; c < 2 * h + 2; ++c) scores[m][n][c] = fmaxf(scores[m][n][c], -1.f);"},
      // of another function, and of its small arguments
      {"ptx/fast_math.cuh", "magnitude < 0.25f ? x * series : copysignf(far, x)", "x * series"},
      {"ptx/fast_math.cuh", "magnitude < 0.25f ? x * series", "magnitude < 0.25f ? series"},
  };
  for (const char* candidate : {kFlash, kParts}) {
    const char* problem = "b=1,hq=2,hk=1,sq=20,sk=100,d=64,causal,softcap";
    EXPECT_TRUE(agrees_with_float64(problem, candidate, embedded_headers()));
    for (const auto& fault : faults)
      EXPECT_FALSE(agrees_with_float64(problem, candidate, planted(fault.header, fault.from, fault.to)))
          << candidate << ": " << fault.from;
  }
}

}  // namespace
}  // namespace gqa::simt

// The flash family on a key/value cache, on the CPU against the naive loop: pages of all sizes, out of order and
// shared, lengths around a step's, windows, few queries and many, tiles of several kinds. Slots that no sequence uses
// hold NaN.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/simt/kernels/cache_launch.h"

namespace gqa::simt {
namespace {

using Lengths = std::vector<std::int32_t>;

struct Case {
  const char *problem, *candidate;
  Lengths lengths = {};
  bool heads_first = false;
};

class FlashCache : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

::testing::AssertionResult right(const char* candidate_text, test::CacheCase* t) {
  Candidate candidate;
  if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
  return judged({attention_source(t->call.problem, candidate)},
                [&](const Kernel& kernel) { return cache_agrees(kernel, candidate, t); });
}

TEST_P(FlashCache, AgreesWithTheNaiveLoopUnderEverySchedule) {
  test::CacheCase t(GetParam().problem, GetParam().lengths, GetParam().heads_first);
  EXPECT_TRUE(right(GetParam().candidate, &t));
}

// Steps of 32 keys, and lengths of none, one, a step with one less and more, and all.
INSTANTIATE_TEST_SUITE_P(Pages, FlashCache,
                         ::testing::Values(Case{"b=6,hq=2,hk=1,sq=5,sk=150,d=64,causal,lens,page=1,lse",
                                                "flash m=16 n=32 warps=1 stages=2 pack=2",
                                                {0, 1, 31, 32, 33, 150}},
                                           Case{"b=6,hq=2,hk=1,sq=64,sk=150,d=64,causal,lens,page=7,lse",
                                                "flash m=64 n=32 warps=4 stages=3 pack=1",
                                                {33, 150, 0, 1, 31, 32}},
                                           Case{"b=6,hq=1,hk=1,sq=100,sk=150,d=64,causal,lens,page=16,lse",
                                                "flash m=64 n=32 warps=2 stages=1 pack=1",
                                                {150, 33, 32, 31, 1, 0}},
                                           Case{"b=6,hq=4,hk=2,sq=1,sk=150,d=64,lens,page=64,lse",
                                                "flash m=16 n=32 warps=1 stages=3 pack=2",
                                                {31, 150, 33, 0, 32, 1}},
                                           Case{"b=6,hq=1,hk=1,sq=100,sk=300,d=32,causal,lens,page=128,lse",
                                                "flash m=128 n=32 warps=8 stages=2 pack=1",
                                                {300, 0, 1, 31, 129, 128}},
                                           Case{"b=2,hq=2,hk=1,sq=40,sk=100,d=32,page=16,lse",
                                                "flash m=32 n=32 warps=2 stages=2 pack=1"}));

// Walks of several groups of pages that lanes look up at once, steps with more pages than lanes, chunks that keep few
// of the threads busy, pages and steps where none divides the other.
INSTANTIATE_TEST_SUITE_P(LookUps, FlashCache,
                         ::testing::Values(Case{"b=3,hq=1,hk=1,sq=5,sk=600,d=32,causal,lens,page=1,lse",
                                                "flash m=16 n=16 warps=1 stages=2 pack=1",
                                                {600, 511, 513}},
                                           Case{"b=3,hq=1,hk=1,sq=5,sk=600,d=32,causal,lens,page=4,lse",
                                                "flash m=32 n=32 warps=2 stages=1 pack=1",
                                                {600, 128, 129}},
                                           Case{"b=3,hq=1,hk=1,sq=20,sk=300,d=64,causal,lens,page=1,lse",
                                                "flash m=32 n=64 warps=2 stages=2 pack=1",
                                                {300, 64, 65}},
                                           Case{"b=2,hq=1,hk=1,sq=20,sk=300,d=32,causal,lens,page=1,lse",
                                                "flash m=32 n=128 warps=2 stages=1 pack=1",
                                                {300, 129}},
                                           Case{"b=2,hq=1,hk=1,sq=130,sk=160,d=64,causal,lens,page=8,lse",
                                                "flash m=128 n=32 warps=8 stages=2 pack=1",
                                                {160, 97}},
                                           Case{"b=2,hq=1,hk=1,sq=70,sk=400,d=64,causal,lens,page=16,lse",
                                                "flash m=96 n=48 warps=3 stages=2 pack=1",
                                                {400, 191}},
                                           Case{"b=2,hq=1,hk=1,sq=70,sk=250,d=64,causal,lens,page=24,lse",
                                                "flash m=32 n=32 warps=1 stages=2 pack=1",
                                                {250, 95}}));

INSTANTIATE_TEST_SUITE_P(
    Masks, FlashCache,
    ::testing::Values(
        Case{"b=3,hq=2,hk=1,sq=100,sk=150,d=32,left=40,causal,lens,page=16,lse",
             "flash m=64 n=32 warps=4 stages=2 pack=1",
             {150, 33, 97}},
        Case{"b=3,hq=2,hk=1,sq=64,sk=150,d=32,left=7,right=3,lens,page=7,lse",
             "flash m=32 n=16 warps=2 stages=1 pack=1",
             {150, 3, 65}},
        Case{"b=2,hq=2,hk=1,sq=5,sk=600,d=32,left=300,causal,lens,page=1,lse",
             "flash m=16 n=16 warps=1 stages=3 pack=2",
             {600, 450}},
        Case{"b=1,hq=2,hk=1,sq=100,sk=140,d=32,left=33,right=0,lse", "flash m=64 n=32 warps=2 stages=2 pack=2"},
        Case{"b=1,hq=2,hk=1,sq=70,sk=140,d=32,right=2,lse", "flash m=32 n=64 warps=2 stages=2 pack=1"},
        Case{"b=1,hq=1,hk=1,sq=70,sk=140,d=32,left=0,right=0,lse", "flash m=64 n=32 warps=4 stages=2 pack=1"},
        // Keys after the last, and yet the first queries see none, or few.
        Case{"b=1,hq=2,hk=1,sq=40,sk=6,d=32,right=20,lse", "flash m=16 n=16 warps=1 stages=2 pack=1"},
        Case{"b=1,hq=1,hk=1,sq=150,sk=60,d=32,left=9,right=4,lse", "flash m=32 n=16 warps=1 stages=2 pack=1"},
        Case{"b=4,hq=2,hk=1,sq=64,sk=140,d=64,causal,lens,lse",
             "flash m=64 n=64 warps=4 stages=1 pack=1",
             {140, 0, 63, 65}},
        Case{"b=3,hq=2,hk=1,sq=100,sk=140,d=64,lens", "flash m=128 n=32 warps=4 stages=2 pack=1", {140, 0, 65}}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, FlashCache,
    ::testing::Values(Case{"b=3,hq=2,hk=2,sq=33,sk=90,d=80,align=2,causal,lens,page=3,lse",
                           "flash m=32 n=16 warps=2 stages=2 pack=1",
                           {90, 17, 0}},
                      Case{"b=2,hq=2,hk=1,sq=40,sk=90,d=192,dv=128,causal,lens,page=16,lse,dtype=f16",
                           "flash m=32 n=32 warps=2 stages=1 pack=2",
                           {90, 41},
                           true},
                      Case{"b=2,hq=2,hk=1,sq=40,sk=90,d=64,dv=128,causal,lens,page=16,lse",
                           "flash m=32 n=32 warps=1 stages=2 pack=1",
                           {90, 0}},
                      Case{"b=2,hq=2,hk=1,sq=20,sk=90,d=256,causal,lens,page=64,lse",
                           "flash m=32 n=32 warps=2 stages=2 pack=1",
                           {90, 64}}));

class FlashCacheEntries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

// Blocks of keys outside a window are not loaded, nor looked up: their entries may be anything.
TEST_F(FlashCacheEntries, BlocksOutsideAWindowAreNotLoaded) {
  test::CacheCase t("b=2,hq=1,hk=1,sq=20,sk=256,d=64,left=15,causal,lens,page=16,lse", {256, 200});
  for (int hidden = 0; hidden < 10; ++hidden)  // of 200 keys, query 0 sees 165 to 180
    for (const int b : {0, 1}) t.table[static_cast<std::size_t>(b * t.table_stride + hidden)] = 0x7fffffff;
  EXPECT_TRUE(right("flash m=32 n=32 warps=2 stages=2 pack=1", &t));
}

// The caller's mistake costs the caller's answer, not a fault.
TEST_F(FlashCacheEntries, AnEntryThatNamesNoPageReadsNoOtherMemory) {
  test::CacheCase t("b=2,hq=1,hk=1,sq=20,sk=100,d=64,causal,lens,page=16,lse", {100, 90});
  t.table[0] = std::numeric_limits<std::int32_t>::max();
  t.table[2] = -7;
  Candidate candidate;
  ASSERT_TRUE(parse("flash m=32 n=32 warps=2 stages=2 pack=1", &candidate).ok());
  EXPECT_TRUE(judged_whole({attention_source(t.call.problem, candidate)}, [&](const Kernel& kernel) {
    const Status status = run_cache(kernel, candidate, &t);
    EXPECT_TRUE(status.ok()) << status.message();
  }));
}

}  // namespace
}  // namespace gqa::simt

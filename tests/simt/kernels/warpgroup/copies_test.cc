// The warpgroup family on pages that warps copy by cp.async, on the CPU against the naive loop: pages of one key, of
// few, of a step's and of odd numbers; every kind of tile. Slots that no sequence uses and pages that nobody names hold
// NaN, entries past a length are out of range.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/lists_case.h"

namespace gqa::simt {
namespace {

using Lengths = std::vector<std::int32_t>;

class WarpgroupCopies : public ::testing::TestWithParam<ListsCase> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_P(WarpgroupCopies, AgreesWithTheNaiveLoopUnderEverySchedule) { EXPECT_TRUE(passes(GetParam())); }

const Lengths kAround = {0, 1, 63, 64, 65, 200};

// Pages of one key, whose table is the longest; one warpgroup, two and three, static and dynamic, heads packed, tensors
// whose heads lie before their pages' slots.
INSTANTIATE_TEST_SUITE_P(
    PagesOfOne, WarpgroupCopies,
    ::testing::Values(ListsCase{"b=6,hq=2,hk=1,sq=100,sk=200,d=128,causal,page=1,lens,lse",
                                "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                kAround,
                                0,
                                2},
                      ListsCase{"b=6,hq=4,hk=2,sq=5,sk=200,d=64,page=1,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=3 pack=2 dynamic=1 out=0 cp_async=1",
                                {},
                                kAround},
                      ListsCase{"b=3,hq=1,hk=1,sq=200,sk=150,d=64,causal,page=1,lens,lse",
                                "warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1 cp_async=1",
                                {},
                                {150, 3, 64},
                                0,
                                1,
                                true},
                      ListsCase{"b=2,hq=2,hk=1,sq=70,sk=90,d=64,causal,page=1,lse",
                                "warpgroup m=64 n=64 warps=4 stages=1 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {}}));

// Such as TMA's boxes do not fit, and such as they do; steps whose rows warps share unequally.
INSTANTIATE_TEST_SUITE_P(
    OtherPages, WarpgroupCopies,
    ::testing::Values(ListsCase{"b=4,hq=2,hk=1,sq=100,sk=200,d=64,causal,page=2,lens,lse",
                                "warpgroup m=128 n=64 warps=8 stages=2 pack=2 dynamic=0 out=1 cp_async=1",
                                {},
                                {200, 0, 65, 3}},
                      ListsCase{"b=4,hq=2,hk=2,sq=40,sk=200,d=64,dtype=f16,page=3,lens,lse",
                                "warpgroup m=64 n=96 warps=4 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {200, 96, 95, 97}},
                      ListsCase{"b=3,hq=1,hk=1,sq=150,sk=170,d=64,causal,page=4,lens,lse",
                                "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {170, 81, 80},
                                0,
                                2,
                                true},
                      ListsCase{"b=3,hq=2,hk=1,sq=100,sk=200,d=128,causal,page=7,lens,lse",
                                "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1 q_regs=2 cp_async=1",
                                {},
                                {200, 129, 127},
                                0,
                                2},
                      ListsCase{"b=3,hq=2,hk=1,sq=30,sk=200,d=64,page=12,lens,lse",
                                "warpgroup m=64 n=112 warps=4 stages=2 pack=2 dynamic=0 out=1 cp_async=1",
                                {},
                                {200, 113, 12}},
                      ListsCase{"b=3,hq=2,hk=1,sq=100,sk=400,d=64,causal,page=16,lens,lse",
                                "warpgroup m=128 n=192 warps=8 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {400, 193, 16}},
                      ListsCase{"b=3,hq=1,hk=1,sq=60,sk=200,d=64,page=150,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 cp_async=1",
                                {},
                                {200, 150, 151}}));

// Wide and narrow heads, and such as do not fill their last panel; keys wider than values, and the other way round.
INSTANTIATE_TEST_SUITE_P(
    HeadDims, WarpgroupCopies,
    ::testing::Values(ListsCase{"b=2,hq=2,hk=1,sq=70,sk=90,d=256,causal,page=1,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=1 pack=1 dynamic=0 out=0 cp_async=1",
                                {},
                                {90, 33}},
                      ListsCase{"b=2,hq=2,hk=1,sq=70,sk=90,d=192,dv=128,causal,page=7,lens,lse",
                                "warpgroup m=128 n=64 warps=8 stages=2 pack=2 dynamic=0 out=1 cp_async=1",
                                {},
                                {90, 33}},
                      ListsCase{"b=2,hq=1,hk=1,sq=70,sk=90,d=96,dv=128,page=3,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {90, 33}},
                      ListsCase{"b=2,hq=1,hk=1,sq=70,sk=90,d=80,page=5,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 cp_async=1",
                                {},
                                {90, 33}},
                      ListsCase{"b=2,hq=1,hk=1,sq=70,sk=90,d=32,page=1,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1 cp_async=1",
                                {},
                                {90, 33}}));

// Two warpgroups on the same rows; halves and a column of ones beside the values.
INSTANTIATE_TEST_SUITE_P(
    Softmaxes, WarpgroupCopies,
    ::testing::Values(ListsCase{"b=4,hq=1,hk=1,sq=60,sk=300,d=64,causal,page=1,lens,lse",
                                "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 cp_async=1",
                                {},
                                {0, 64, 129, 300}},
                      ListsCase{"b=4,hq=1,hk=1,sq=60,sk=300,d=64,page=7,lens,lse",
                                "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=1 out=1 cp_async=1",
                                {},
                                {1, 64, 191, 300}},
                      ListsCase{"b=4,hq=1,hk=1,sq=130,sk=300,d=64,causal,page=4,lens",
                                "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 ones_column=1 queries=2 "
                                "cp_async=1",
                                {},
                                {0, 33, 129, 300},
                                0,
                                2}));

// Prompts in pieces, and with decodes beside them: packed queries, with keys before theirs and without.
INSTANTIATE_TEST_SUITE_P(
    PackedQueries, WarpgroupCopies,
    ::testing::Values(ListsCase{"b=6,hq=4,hk=2,sq=150,sk=200,d=64,causal,packq,page=1,lens,lse",
                                "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 cp_async=1",
                                {150, 0, 1, 64, 3, 40},
                                {200, 7, 150, 64, 0, 199},
                                2,
                                2},
                      ListsCase{"b=4,hq=4,hk=2,sq=70,sk=200,d=128,packq,page=7,lens,lse",
                                "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=0 out=1 cp_async=1",
                                {70, 1, 0, 5},
                                {200, 130, 90, 1},
                                2}));

}  // namespace
}  // namespace gqa::simt

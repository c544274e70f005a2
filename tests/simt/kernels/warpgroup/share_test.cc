// Warpgroups that share the keys of the same rows, on the CPU against float64: even and odd numbers of blocks, one
// block, causal and ragged lengths, several tiles a CTA, rows that see no key, maxima that grow in one part or another.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

using Case = WarpgroupCase;

class WarpgroupShare : public WarpgroupTest {};

TEST_P(WarpgroupShare, AgreesWithFloat64UnderEverySchedule) { EXPECT_TRUE(right_under(schedules())); }

constexpr const char* kFour = "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=1";
constexpr const char* kTwo = "warpgroup m=64 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1";

INSTANTIATE_TEST_SUITE_P(Blocks, WarpgroupShare,
                         ::testing::Values(Case{"b=1,hq=3,hk=1,sq=60,sk=250,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=300,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=40,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=120,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=1,hk=1,sq=300,sk=300,d=64,dtype=f16,causal", kFour},
                                           Case{"b=1,hq=2,hk=1,sq=260,sk=330,d=64,dtype=f16,causal", kFour, 3},
                                           Case{"b=1,hq=1,hk=1,sq=300,sk=100,d=64,dtype=f16,causal", kFour},
                                           Case{"b=1,hq=1,hk=1,sq=100,sk=400,d=64,dtype=f16", kFour, 1, 100},
                                           Case{"b=1,hq=1,hk=1,sq=100,sk=400,d=64,dtype=f16", kFour, 1, -100},
                                           Case{"b=1,hq=2,hk=1,sq=150,sk=500,d=128", kTwo},
                                           Case{"b=1,hq=2,hk=1,sq=150,sk=130,d=128", kTwo},
                                           Case{"b=1,hq=2,hk=1,sq=300,sk=300,d=128,causal", kTwo, 2}));

}  // namespace
}  // namespace gqa::simt

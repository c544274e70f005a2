// Warpgroup kernels whose CTAs share keys in clusters, and those that hold queries in registers, on the CPU against
// float64: tiles of one CTA's rows only, rows that do not exist, masks, packed heads, several tiles a cluster, half
// blocks, maxima that grow.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

using Case = WarpgroupCase;

class WarpgroupCluster : public WarpgroupTest {};

TEST_P(WarpgroupCluster, AgreesWithFloat64UnderEverySchedule) { EXPECT_TRUE(right_under(cluster_schedules())); }

constexpr const char* kPlain = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0 cluster=2";
constexpr const char* kPacked = "warpgroup m=128 n=64 warps=8 stages=2 pack=4 dynamic=0 out=1 q_regs=3 cluster=2";
constexpr const char* kOnesColumn =
    "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2 cluster=2";
constexpr const char* kDynamic = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=0 cluster=2";
constexpr const char* kDynamicOnes =
    "warpgroup m=128 n=64 warps=8 stages=4 pack=1 dynamic=1 out=1 ones_column=1 queries=2 cluster=2 head_swizzle=1";
constexpr const char* kQRegs = "warpgroup m=128 n=96 warps=8 stages=2 pack=1 dynamic=0 out=0 q_regs=9";
constexpr const char* kTwoBuffers = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 queries=2 q_regs=2";

INSTANTIATE_TEST_SUITE_P(
    Clusters, WarpgroupCluster,
    ::testing::Values(Case{"b=1,hq=1,hk=1,sq=256,sk=300,d=64", kPlain, 2},
                      Case{"b=1,hq=2,hk=1,sq=140,sk=150,d=64,dtype=f16", kPlain, 2},
                      Case{"b=1,hq=3,hk=1,sq=300,sk=100,d=64", kPlain, 5},
                      Case{"b=1,hq=1,hk=1,sq=500,sk=500,d=64,causal", kPlain, 2},
                      Case{"b=1,hq=2,hk=1,sq=320,sk=600,d=64,causal,dtype=f16", kPlain, 4},
                      Case{"b=1,hq=1,hk=1,sq=300,sk=130,d=64,causal", kPlain, 2},
                      Case{"b=1,hq=4,hk=1,sq=100,sk=130,d=80,causal", kPacked, 2},
                      Case{"b=1,hq=8,hk=2,sq=60,sk=300,d=64,dtype=f16", kPacked, 2},
                      Case{"b=1,hq=2,hk=2,sq=200,sk=330,d=64,lse=0", kOnesColumn, 2},
                      Case{"b=1,hq=1,hk=1,sq=400,sk=500,d=64,causal,lse=0,dtype=f16", kOnesColumn, 2},
                      Case{"b=1,hq=1,hk=1,sq=256,sk=400,d=64,dtype=f16", kPlain, 2, 24},
                      Case{"b=1,hq=1,hk=1,sq=256,sk=400,d=64,dtype=f16,lse=0", kOnesColumn, 2, 24}));

// The dynamic scheduler: more and fewer tiles than clusters, of one block each, in swizzled groups of heads.
INSTANTIATE_TEST_SUITE_P(Dynamic, WarpgroupCluster,
                         ::testing::Values(Case{"b=1,hq=3,hk=1,sq=600,sk=300,d=64,causal", kDynamic, 4},
                                           Case{"b=1,hq=3,hk=1,sq=1500,sk=60,d=64,causal,dtype=f16", kDynamic, 2},
                                           Case{"b=2,hq=2,hk=1,sq=300,sk=60,d=64", kDynamic, 4},
                                           Case{"b=1,hq=1,hk=1,sq=200,sk=200,d=64", kDynamic, 6},
                                           Case{"b=1,hq=3,hk=3,sq=500,sk=330,d=64,causal,lse=0", kDynamicOnes, 4},
                                           Case{"b=1,hq=2,hk=2,sq=700,sk=50,d=64,lse=0,dtype=f16", kDynamicOnes, 2}));

INSTANTIATE_TEST_SUITE_P(QInRegisters, WarpgroupCluster,
                         ::testing::Values(Case{"b=1,hq=2,hk=1,sq=150,sk=200,d=192,dtype=f16", kQRegs, 1},
                                           Case{"b=1,hq=1,hk=1,sq=200,sk=330,d=192,causal", kQRegs, 1},
                                           Case{"b=1,hq=1,hk=1,sq=128,sk=400,d=192,dtype=f16", kQRegs, 1, 24},
                                           Case{"b=1,hq=3,hk=1,sq=200,sk=200,d=64,causal", kTwoBuffers, 1},
                                           Case{"b=1,hq=3,hk=1,sq=128,sk=150,d=64,ktrans", kTwoBuffers, 2}));

}  // namespace
}  // namespace gqa::simt

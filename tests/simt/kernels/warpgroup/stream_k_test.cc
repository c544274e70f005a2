// Tiles that whole rounds leave over, shared by their keys, on the CPU against float64: one and more of them, no whole
// round, none left, fewer blocks than CTAs, clusters, packed heads, maxima that grow in one part or another.
#include <gtest/gtest.h>

#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

using Case = WarpgroupCase;

class WarpgroupStreamK : public WarpgroupTest {};

TEST_P(WarpgroupStreamK, AgreesWithFloat64UnderEverySchedule) { EXPECT_TRUE(right_under(schedules())); }

constexpr const char* kThree = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=3";
constexpr const char* kQRegs = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0 q_regs=2 stream_k=3";
constexpr const char* kPacked = "warpgroup m=128 n=80 warps=8 stages=2 pack=2 dynamic=0 out=1 stream_k=4";
constexpr const char* kOnesColumn =
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 stream_k=3";
constexpr const char* kOnesInPairs =
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 queries=2 cluster=2 "
    "stream_k=2";
constexpr const char* kPairs = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 cluster=2 stream_k=2";

INSTANTIATE_TEST_SUITE_P(Tiles, WarpgroupStreamK,
                         ::testing::Values(
                             // Two tiles for three CTAs, after a round and without one
                             Case{"b=1,hq=5,hk=1,sq=100,sk=300,d=64,dtype=f16", kThree, 3},
                             Case{"b=1,hq=2,hk=1,sq=100,sk=300,d=64,dtype=f16", kThree, 3},
                             // One for all; as many as CTAs; fewer blocks of keys than CTAs
                             Case{"b=1,hq=1,hk=1,sq=100,sk=500,d=64,dtype=f16", kQRegs, 3},
                             Case{"b=1,hq=3,hk=1,sq=100,sk=150,d=64,dtype=f16", kThree, 3},
                             Case{"b=1,hq=1,hk=1,sq=100,sk=100,d=64,dtype=f16", kThree, 3},
                             Case{"b=1,hq=2,hk=1,sq=100,sk=50,d=64,dtype=f16", kThree, 3},
                             // A warpgroup whose rows do not exist
                             Case{"b=1,hq=5,hk=1,sq=60,sk=300,d=64,dtype=f16", kThree, 3},
                             Case{"b=1,hq=2,hk=1,sq=150,sk=330,d=64,dtype=f16", kQRegs, 3},
                             Case{"b=1,hq=3,hk=1,sq=300,sk=200,d=64,dtype=f16", kPairs, 4},
                             // Sums that are a part of out, whole pieces and pieces of one block
                             Case{"b=1,hq=5,hk=1,sq=100,sk=300,d=64,dtype=f16,lse=0", kOnesColumn, 3},
                             Case{"b=1,hq=1,hk=1,sq=100,sk=190,d=64,dtype=f16,lse=0", kOnesColumn, 3},
                             Case{"b=1,hq=1,hk=1,sq=100,sk=500,d=64,dtype=f16,lse=0", kOnesColumn, 3, 100},
                             Case{"b=1,hq=3,hk=1,sq=200,sk=330,d=64,lse=0", kOnesInPairs, 4},
                             // On a device with fewer SMs than it was found on
                             Case{"b=1,hq=5,hk=1,sq=100,sk=300,d=64,dtype=f16", kThree, 2},
                             Case{"b=1,hq=1,hk=1,sq=100,sk=500,d=64,dtype=f16", kThree, 3, 100},
                             Case{"b=1,hq=1,hk=1,sq=100,sk=500,d=64,dtype=f16", kThree, 3, -100},
                             Case{"b=1,hq=6,hk=1,sq=90,sk=330,d=128", kPacked, 4},
                             Case{"b=1,hq=3,hk=1,sq=200,sk=330,d=64,dtype=f16", kPairs, 4}));

}  // namespace
}  // namespace gqa::simt

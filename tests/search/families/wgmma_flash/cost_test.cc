// cost_test.cc: what the model of wgmma_flash must know. No device is asked.
#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

// Under the static scheduler the end of each swizzled group of heads leaves SMs idle where tiles differ (measured: 1.07
// to 1.4 times as long). Those of few queries on many keys hardly do.
TEST(Rank, SwizzledHeadsPayForTheirEndsUnderAMask) {
  const auto slower = [](const std::string& shape, const std::string& walk, const std::string& than) {
    const std::string tile = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 out=1 ";
    return predict_us(problem_of(shape), candidate_of(tile + walk), h200()) /
           predict_us(problem_of(shape), candidate_of(tile + than), h200());
  };
  const std::string many = "b=16,hq=8,sq=1024,d=192";
  EXPECT_GT(slower(many + ",causal", "dynamic=0 head_swizzle=40", "dynamic=1 head_swizzle=40"), 1.04);
  EXPECT_LT(slower(many, "dynamic=0 head_swizzle=40", "dynamic=1 head_swizzle=40"), 1.01);
  const std::string few = "hq=32,hk=8,sq=512,sk=16384,d=128,causal";
  EXPECT_LT(slower(few, "dynamic=0 head_swizzle=12", "dynamic=0 head_swizzle=0"), 1.03);
}

// Where products hide memory's time they do not hide all of it.
TEST(Rank, HeadsThatFitL2PayWhereProductsRule) {
  const Problem p = problem_of("b=8,hq=8,sq=2048,d=256");
  const std::string tile = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=2 cluster=2 head_swizzle=";
  const auto seconds = [&](const char* order) { return predict_us(p, candidate_of(tile + order), h200()); };
  EXPECT_GT(seconds("0"), 1.04 * seconds("15"));
  EXPECT_EQ(seconds("15"), seconds("8"));  // 64 heads: the largest number up to 15 that divides them
}

TEST(Rank, StreamKPaysWhereMuchOfAWaveIsIdle) {
  const auto gain = [](const std::string& shape, const std::string& tile) {
    const Problem p = problem_of(shape);
    return predict_us(p, candidate_of("warpgroup " + tile), h200()) /
           predict_us(p, candidate_of("warpgroup " + tile + " stream_k=132"), h200());
  };
  const std::string wide = "m=192 n=64 warps=12 stages=4 pack=1 dynamic=0 out=1";
  EXPECT_GT(gain("hq=16,sq=16384,d=128", wide), 1.03);     // 10.3 rounds of 0.25 ms
  EXPECT_LT(gain("b=16,hq=16,sq=1024,d=128", wide), 1.0);  // 11.6 rounds of 20 us
  EXPECT_GT(gain("hq=8,sq=16384,d=256", "m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=2"), 1.01);
}

// 1,152 rows fill six tiles of 192, 1,024 leave two of the first tile's three warpgroups nothing to do.
TEST(Rank, WarpgroupsWithoutRowsCostNothingWhereNoMaskHidesKeys) {
  const auto seconds = [](const char* rows, const char* tile) {
    return predict_us(problem_of("b=16,hq=16,sk=1024,d=128,sq=" + std::string(rows)), candidate_of(tile), h200());
  };
  constexpr const char* kThree = "warpgroup m=192 n=64 warps=12 stages=4 pack=1 dynamic=1 out=1";
  EXPECT_LT(seconds("1024", kThree), 0.95 * seconds("1152", kThree));
  EXPECT_GT(seconds("1151", kThree), 0.99 * seconds("1152", kThree));
}

TEST(Rank, WhatMovesLessIsKnown) {
  const Problem p = problem_of("hq=8,sq=16384,d=256");
  const auto moved = [&](const std::string& fields, const DeviceSpec& device = h200()) {
    return moved_bytes(p, candidate_of("warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0 " + fields),
                       device);
  };
  // 1024 tiles read a head's 16 MiB each, or two of them together; in 8 rounds all heads' keys come from memory.
  EXPECT_NEAR(moved("cluster=1 head_swizzle=1"), 1024 * 16.0 * (1 << 20), 0.05 * moved("cluster=1 head_swizzle=1"));
  EXPECT_NEAR(moved("cluster=2 head_swizzle=1"), 512 * 16.0 * (1 << 20), 0.1 * moved("cluster=2 head_swizzle=1"));
  EXPECT_GT(moved("cluster=1 head_swizzle=0"), 1.1 * moved("cluster=1 head_swizzle=1"));
  EXPECT_GT(moved("cluster=2 head_swizzle=0"), 1.1 * moved("cluster=2 head_swizzle=1"));
  EXPECT_EQ(moved("cluster=2 head_swizzle=1", host()), 0);
}

}  // namespace
}  // namespace gqa

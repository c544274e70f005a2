// cost_test.cc: how candidates are ranked: what the model must know. No device is asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

// Of a kernel among the problem's, the first is 1; past all of them where it is none of these.
std::size_t place_of(const std::string& shape, const std::string& kernel) {
  std::set<std::string> kernels;
  for (const Ranked& r : enumerate(problem_of(shape), h200()).ranked) {
    kernels.insert(kernel_text(r.candidate));
    if (kernel_text(r.candidate) == kernel) return kernels.size();
  }
  return std::numeric_limits<std::size_t>::max();
}

TEST(Rank, DecodePrefersSplitAndPrefillWarpgroupOrFlash) {
  for (const char* shape : {"hq=32,hk=8,sq=1,sk=8192,d=128", "b=4,hq=32,hk=8,sq=1,sk=4096,d=128",
                            "hq=8,sq=1,sk=32768,d=64", "hq=16,hk=2,sq=4,sk=8192,d=256"}) {
    const Candidate best = enumerate(problem_of(shape), h200()).ranked[0].candidate;
    EXPECT_EQ(best.family, Family::kSplit) << shape;
    EXPECT_GT(best.splits, 1) << shape;
  }
  for (const char* shape :
       {"hq=32,hk=8,sq=4096,d=128,causal", "hq=8,sq=2048,d=256", "b=16,hq=32,hk=8,sq=64,sk=4096,d=64"}) {
    EXPECT_EQ(enumerate(problem_of(shape), h200()).ranked[0].candidate.family, Family::kWarpgroup) << shape;
    const Problem without_tma = problem_of(std::string(shape) + ",notma");
    EXPECT_EQ(enumerate(without_tma, h200()).ranked[0].candidate.family, Family::kFlash) << shape;
    const DeviceSpec a100 = *DeviceSpec::for_arch("sm_80");
    EXPECT_EQ(enumerate(problem_of(shape), a100).ranked[0].candidate.family, Family::kFlash) << shape;
  }
}

// A dozen kernels are compiled at most: tiles that hand-tuned kernels use must be among the first dozen.
TEST(Rank, TheFirstDozenKernelsHoldHandTunedTiles) {
  const auto among_first_dozen = [](const char* shape, const std::string& tile) { return place_of(shape, tile) <= 12; };
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=4096,d=128,causal,notma", "flash m=128 n=64 warps=4 stages=2 pack=1"));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=16384,d=128,causal,notma", "flash m=128 n=64 warps=4 stages=2 pack=1"));
  const char* wide = "warpgroup m=192 n=64 warps=12 stages=4 pack=1 dynamic=0 out=1 q_regs=5";
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=4096,d=128,causal", wide));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=16384,d=128,causal", wide));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=1,sk=8192,d=128", "split m=16 n=32 warps=4 stages=3 pack=4"));
  const std::string summing =
      "warpgroup m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1 ones_column=1 queries=2 exp2_fma=4";
  const std::string long_walk =
      "warpgroup m=192 n=128 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2 exp2_fma=4";
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=2048,d=64,causal", summing));
  EXPECT_FALSE(among_first_dozen("hq=32,hk=8,sq=2048,d=64,causal,lse", summing));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=2048,d=64", summing));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=4096,d=64", long_walk));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=16384,d=64", long_walk + " stream_k=132"));
  const char* together = "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=0 q_regs=12 cluster=2";
  EXPECT_TRUE(among_first_dozen("hq=8,sq=16384,d=192", together));
}

TEST(Rank, TheModelNeverBeatsTheDevice) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      const double memory = 1e6 * bytes(p) / device.memory_bandwidth;
      for (const Ranked& r : enumerate(p, device).ranked) {
        const bool warpgroup = r.candidate.family == Family::kWarpgroup;
        const double compute = 1e6 * flops(p) / (warpgroup ? device.wgmma_flops : device.tensor_flops);
        EXPECT_GE(r.predicted_us, 0.999 * std::max(memory, compute)) << shape << " " << to_text(r.candidate);
      }
    }
  }
}

TEST(Rank, SplittingPaysOnlyWhereProcessorsAreIdle) {
  const Candidate one = candidate_of("split m=16 n=32 warps=4 stages=3 pack=4");
  Candidate many = one;
  many.splits = 16;
  const Problem alone = problem_of("hq=32,hk=8,sq=1,sk=8192,d=128");
  const Problem batch = problem_of("b=128,hq=32,hk=8,sq=1,sk=8192,d=128");
  EXPECT_LT(predict_us(alone, many, h200()), predict_us(alone, one, h200()));
  EXPECT_GT(predict_us(batch, many, h200()), predict_us(batch, one, h200()));
}

TEST(Rank, HeadByHeadPaysWhereKeysDoNotFitL2) {
  const Problem p = problem_of("b=64,hq=32,sq=2048,d=128,causal");
  Candidate c = candidate_of("flash m=64 n=16 warps=4 stages=3 pack=1");
  const double across = predict_us(p, c, h200());
  c.head_swizzle = 1;
  EXPECT_LE(predict_us(p, c, h200()), across * 1.01);
}

// Of 512 tokens; the tuner compiles a dozen.
TEST(Rank, TheFirstDozenKernelsHoldTheFastestOfAShortPrompt) {
  const char* fastest = "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=1";
  EXPECT_LE(place_of("hq=32,hk=8,sq=512,d=128,causal,lse=0", fastest), 12U);
}

// Of the fastest kernels that were timed for each, idle-gapped; a guess compiles three.
TEST(Rank, TheFirstFourKernelsHoldOneOfTheFastest) {
  const auto place = [](const char* shape, const std::string& tile) { return place_of(shape, "warpgroup " + tile); };
  const std::string halves = "m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1 ones_column=1 queries=2 exp2_fma=4";
  const std::string long_halves =
      "m=192 n=128 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2 exp2_fma=4 stream_k=132";
  const std::string wide = "m=192 n=64 warps=12 stages=4 pack=";
  EXPECT_LE(place("hq=32,sq=16384,d=64,causal", halves), 2U);
  EXPECT_LE(place("hq=32,sq=16384,d=64", long_halves), 2U);
  const std::string folded =
      "m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1 ones_column=1 folded_scale=1 queries=2 exp2_fma=8";
  EXPECT_LE(place("hq=32,sq=16384,d=64,causal,dtype=f16", folded), 2U);
  EXPECT_LE(place("hq=32,hk=8,sq=4096,d=128,causal", wide + "1 dynamic=1 out=1 q_regs=5"), 2U);
  EXPECT_LE(place("hq=16,sq=16384,d=128,causal", wide + "1 dynamic=1 out=1 q_regs=5"), 4U);
  EXPECT_LE(place("hq=16,sq=16384,d=128", wide + "1 dynamic=0 out=1 q_regs=5 cluster=2 stream_k=66"), 4U);
  EXPECT_LE(place("b=4,hq=32,hk=8,sq=2048,d=128,causal", wide + "4 dynamic=0 out=1 q_regs=5"), 4U);
  EXPECT_LE(place("b=16,hq=32,hk=8,sq=1024,d=128,causal", wide + "2 dynamic=0 out=1 q_regs=5"), 4U);
  EXPECT_LE(
      place("hq=8,sq=16384,d=256,causal", "m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=2 q_regs=7 cluster=2"), 4U);
  EXPECT_LE(
      place("hq=8,sq=16384,d=256", "m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=2 q_regs=7 cluster=2 stream_k=66"),
      4U);
  EXPECT_LE(place("hq=32,hk=8,sq=512,d=128,causal", "m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=1"), 2U);
  EXPECT_LE(
      place("hq=32,hk=8,sq=512,sk=16384,d=128,causal", "m=128 n=160 warps=8 stages=2 pack=1 dynamic=0 out=1 q_regs=7"),
      2U);
}

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

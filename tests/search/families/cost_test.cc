// cost_test.cc: how candidates are ranked: what the model must know. No device is asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "search/families/resources.h"
#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

// A kernel's place among the problem's, the first is 1; past all of them where it is none of these.
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
    EXPECT_EQ(name(best), "split") << shape;
    EXPECT_GT(shape_of(best).splits, 1) << shape;
  }
  for (const char* shape :
       {"hq=32,hk=8,sq=4096,d=128,causal", "hq=8,sq=2048,d=256", "b=16,hq=32,hk=8,sq=64,sk=4096,d=64"}) {
    EXPECT_EQ(name(enumerate(problem_of(shape), h200()).ranked[0].candidate), "warpgroup") << shape;
    const Problem without_tma = problem_of(std::string(shape) + ",notma");
    EXPECT_EQ(name(enumerate(without_tma, h200()).ranked[0].candidate), "flash") << shape;
    const DeviceSpec a100 = *DeviceSpec::for_arch("sm_80");
    EXPECT_EQ(name(enumerate(problem_of(shape), a100).ranked[0].candidate), "flash") << shape;
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
  const std::string summing = "warpgroup m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1 ones_column=1 queries=2";
  const std::string long_walk =
      "warpgroup m=192 n=128 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2";
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
        const bool warpgroup = name(r.candidate) == "warpgroup";
        const double compute = 1e6 * flops(p) / (warpgroup ? device.wgmma_flops : device.tensor_flops);
        EXPECT_GE(r.predicted_us, 0.999 * std::max(memory, compute)) << shape << " " << to_text(r.candidate);
      }
    }
  }
}

// The prompt has 512 tokens; the tuner compiles a dozen.
TEST(Rank, TheFirstDozenKernelsHoldTheFastestOfAShortPrompt) {
  const char* fastest = "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=1";
  EXPECT_LE(place_of("hq=32,hk=8,sq=512,d=128,causal,lse=0", fastest), 12U);
}

// The fastest kernels were timed for each, idle-gapped; a guess compiles three.
TEST(Rank, TheFirstFourKernelsHoldOneOfTheFastest) {
  const auto place = [](const char* shape, const std::string& tile) { return place_of(shape, "warpgroup " + tile); };
  const std::string halves = "m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1 ones_column=1 queries=2";
  const std::string long_halves =
      "m=192 n=128 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2 stream_k=132";
  const std::string wide = "m=192 n=64 warps=12 stages=4 pack=";
  EXPECT_LE(place("hq=32,sq=16384,d=64,causal", halves), 2U);
  EXPECT_LE(place("hq=32,sq=16384,d=64", long_halves), 2U);
  EXPECT_LE(place("hq=32,sq=16384,d=64,causal,dtype=f16", halves), 2U);
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

}  // namespace
}  // namespace gqa

// space_test.cc: the space: what is in it, whole and in order. No device is asked.
#include "search/families/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

#include "search/families/resources.h"
#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

TEST(Space, EveryProblemHasCandidatesOnEveryDevice) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Space space = enumerate(problem_of(shape), device);
      EXPECT_FALSE(space.ranked.empty()) << shape << " on " << device.arch;
    }
    for (const int d : {32, 64, 80, 96, 112, 128, 192, 256}) {
      for (const int dv : {32, 128, 256}) {
        Problem p = problem_of("hq=4,hk=1,sq=300,sk=300,d=64");
        p.head_dim = d;
        p.head_dim_v = dv;
        EXPECT_FALSE(enumerate(p, device).ranked.empty()) << to_text(p) << " on " << device.arch;
      }
    }
  }
}

TEST(Space, NothingIsListedTwiceAndVerdictsAgree) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      const Space space = enumerate(p, device);
      std::set<Candidate> seen;
      for (const Ranked& r : space.ranked) {
        EXPECT_TRUE(seen.insert(r.candidate).second) << to_text(r.candidate);
        EXPECT_EQ(reject_reason(p, r.candidate, device), "");
        EXPECT_EQ(predict_us(p, r.candidate, device), r.predicted_us);
        EXPECT_TRUE(r.predicted_us > 0 && r.predicted_us < 1e12) << to_text(r.candidate);
      }
      for (const Rejected& r : space.rejected) {
        EXPECT_TRUE(seen.insert(r.candidate).second) << to_text(r.candidate);
        EXPECT_FALSE(r.reason.empty());
      }
      EXPECT_TRUE(std::is_sorted(space.ranked.begin(), space.ranked.end(), [](const Ranked& a, const Ranked& b) {
        return a.predicted_us != b.predicted_us ? a.predicted_us < b.predicted_us : a.candidate < b.candidate;
      }));
    }
  }
}

TEST(Space, WhatIsRankedFitsTheDevice) {
  for (const DeviceSpec& device : devices()) {
    if (device.kind == DeviceKind::kHost) continue;
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      for (const Ranked& r : enumerate(p, device).ranked) {
        const LaunchPlan launch = plan(p, r.candidate);
        EXPECT_LE(launch.shared_memory, device.smem_per_block);
        EXPECT_LE(registers(p, r.candidate), 255);
        EXPECT_LE(launch.threads, 1024);
        EXPECT_LE(launch.blocks, 2147483647);
        EXPECT_EQ(p.group() % r.candidate.pack, 0);
      }
    }
  }
}

TEST(Space, TheHostHasOneWarpAndOneStage) {
  for (const char* shape : kShapes) {
    for (const Ranked& r : enumerate(problem_of(shape), host()).ranked) {
      EXPECT_EQ(r.candidate.warps, 1);
      EXPECT_EQ(r.candidate.stages, 1);
    }
  }
}

TEST(Space, EnumerationIsDeterministic) {
  for (const char* shape : kShapes) {
    const Space a = enumerate(problem_of(shape), h200()), b = enumerate(problem_of(shape), h200());
    ASSERT_EQ(a.ranked.size(), b.ranked.size());
    ASSERT_EQ(a.rejected.size(), b.rejected.size());
    for (std::size_t i = 0; i < a.ranked.size(); ++i) EXPECT_EQ(a.ranked[i].candidate, b.ranked[i].candidate);
    for (std::size_t i = 0; i < a.rejected.size(); ++i) EXPECT_EQ(a.rejected[i].reason, b.rejected[i].reason);
  }
}

TEST(Space, EnumerationIsQuick) {
  double fastest = 1e9;  // of several, so that a busy machine does not fail it
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const char* shape : kShapes) EXPECT_FALSE(enumerate(problem_of(shape), h200()).ranked.empty());
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(fastest / std::size(kShapes), 0.1) << "seconds a problem; about 0.0001 when optimised";
}

std::set<Candidate> warpgroup_candidates(const char* shape, const DeviceSpec& device = h200()) {
  std::set<Candidate> found;
  const Space space = enumerate(problem_of(shape), device);
  for (const Ranked& r : space.ranked) {
    if (r.candidate.family == Family::kWarpgroup) found.insert(r.candidate);
  }
  for (const Rejected& r : space.rejected) {
    if (r.candidate.family == Family::kWarpgroup) found.insert(r.candidate);
  }
  return found;
}

TEST(Space, WarpgroupTilesAreForHopperOnly) {
  for (const DeviceSpec& device : devices()) {
    EXPECT_EQ(warpgroup_candidates("hq=32,hk=8,sq=4096,d=128", device).empty(), device.arch != "sm_90a") << device.arch;
  }
}

TEST(Space, WarpgroupPacksDivisorsOfTheGroupThatDivideItsRows) {
  const auto packs = [](const char* shape) {
    std::set<int> found;
    for (const Candidate& c : warpgroup_candidates(shape)) found.insert(c.pack);
    return found;
  };
  EXPECT_EQ(packs("hq=32,hk=8,sq=4096,d=128"), (std::set<int>{1, 2, 4}));
  EXPECT_EQ(packs("hq=12,hk=2,sq=100,sk=4096,d=128"), (std::set<int>{1, 2}));
  EXPECT_EQ(packs("hq=6,hk=2,sq=100,sk=4096,d=128"), (std::set<int>{1}));  // 3 does not divide 64
}

// The keys and values of heads walked together fill at most half of L2, in whole key/value heads.
TEST(Space, WarpgroupSwizzlesHeadsWhereKeysDoNotFitL2) {
  const auto orders = [](const char* shape) {
    std::set<int> found;
    for (const Candidate& c : warpgroup_candidates(shape)) found.insert(c.head_swizzle);
    return found;
  };
  EXPECT_EQ(orders("hq=32,hk=8,sq=4096,d=128"), (std::set<int>{0}));
  // 8 MiB a key/value head: 3 of them or 12, in whole groups or parts of them
  EXPECT_EQ(orders("b=4,hq=32,hk=8,sq=16384,d=128"), (std::set<int>{0, 3 * 4, 3 * 2, 3, 12 * 4, 12 * 2, 12}));
  EXPECT_EQ(orders("b=1,hq=8,hk=8,sq=65536,d=256"), (std::set<int>{0, 1, 4}));  // 64 MiB
}

TEST(Space, ClustersAreDynamicWhereAMaskMakesHeadsUneven) {
  const auto dynamic = [](const char* shape) {
    const std::set<Candidate> all = warpgroup_candidates(shape);
    return std::any_of(all.begin(), all.end(), [](const Candidate& c) { return c.dynamic == 1 && c.cluster == 2; });
  };
  EXPECT_TRUE(dynamic("b=8,hq=8,sq=2048,d=256,causal"));
  EXPECT_FALSE(dynamic("b=8,hq=8,sq=2048,d=256"));                 // all tiles alike
  EXPECT_FALSE(dynamic("b=1,hq=8,sq=2048,d=256,causal"));          // keys fit L2
  EXPECT_FALSE(dynamic("b=8,hq=8,sq=512,sk=16384,d=256,causal"));  // nearly alike
}

// What was timed: float16 folds the scale in a long walk; without a mask that has three buffers of keys.
TEST(Space, WhereProductsSum) {
  const auto summing = [](const std::string& problem) {
    std::set<std::tuple<int, int, int>> found;  // exp2_fma, folded_scale, stages
    for (const Ranked& r : enumerate(problem_of("hq=32,d=64,lse=0," + problem), h200()).ranked)
      if (r.candidate.ones_column != 0)
        found.insert({r.candidate.exp2_fma, r.candidate.folded_scale, r.candidate.stages});
    return found;
  };
  using Found = std::set<std::tuple<int, int, int>>;
  EXPECT_EQ(summing("sq=16384,dtype=f16"), Found({{8, 1, 3}}));
  EXPECT_EQ(summing("sq=4096,dtype=f16"), Found({{8, 1, 4}}));
  EXPECT_EQ(summing("sq=1024,dtype=f16"), Found({{0, 0, 4}}));
  EXPECT_EQ(summing("sq=16384,dtype=f16,causal"), Found({{8, 1, 4}}));
  EXPECT_EQ(summing("sq=2048,dtype=f16,causal"), Found({{0, 0, 4}}));
  EXPECT_EQ(summing("sq=512,sk=16384,dtype=f16"), Found({{8, 1, 3}}));
  EXPECT_EQ(summing("sq=16384,dtype=bf16"), Found({{4, 0, 3}}));
  EXPECT_EQ(summing("sq=2048,dtype=bf16"), Found({{4, 0, 4}}));
  EXPECT_EQ(summing("sq=16384,dtype=bf16,causal"), Found({{4, 0, 4}}));
}

// 16k and 32 heads are 20.85 rounds of 192 rows.
TEST(Space, KernelsWithAOnesColumnHaveStreamK) {
  const std::vector<Ranked> ranked = enumerate(problem_of("hq=32,sq=16384,d=64,lse=0"), h200()).ranked;
  EXPECT_TRUE(std::any_of(ranked.begin(), ranked.end(),
                          [](const Ranked& r) { return r.candidate.ones_column == 1 && r.candidate.stream_k == 132; }));
}

// Of a buffer as large as fits beside queries and keys: a tile of 128 rows and 64 keys has room for half of 256
// columns.
TEST(Space, OutHasTheFewestPartsThatFit) {
  const auto parts = [](int head_dim, int m, int n) {
    std::set<int> found;
    for (const Ranked& r : enumerate(problem_of("hq=8,sq=4096,d=" + std::to_string(head_dim)), h200()).ranked) {
      const Candidate& c = r.candidate;
      if (c.family == Family::kWarpgroup && c.tile_m == m && c.tile_n == n) found.insert(c.out_parts);
    }
    return found;
  };
  EXPECT_EQ(parts(128, 128, 64), std::set<int>({1}));
  EXPECT_EQ(parts(256, 128, 64), std::set<int>({2}));
  EXPECT_EQ(parts(192, 128, 96), std::set<int>({2}));
  EXPECT_EQ(parts(256, 128, 80), std::set<int>({0}));
}

}  // namespace
}  // namespace gqa

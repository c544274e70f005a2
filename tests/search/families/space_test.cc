// space_test.cc: the space: what is in it, whole and in order. No device is asked.
#include "search/families/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

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
    for (const int d : {16, 32, 64, 80, 96, 112, 128, 192, 256}) {
      for (const int dv : {32, 128, 256}) {
        Problem p = problem_of("hq=4,hk=1,sq=300,sk=300,d=64");
        p.head_dim = d;
        p.head_dim_v = dv;
        EXPECT_FALSE(enumerate(p, device).ranked.empty()) << to_text(p) << " on " << device.arch;
      }
    }
  }
}

std::string family_of(const Ranked& ranked) { return std::string(name(ranked.candidate)); }

bool has(const Space& space, const std::string& family) {
  return std::any_of(space.ranked.begin(), space.ranked.end(),
                     [&](const Ranked& ranked) { return family_of(ranked) == family; });
}

// Prefills, and chunks of them, on a cache: more rows than split takes.
TEST(Space, ACacheHasFlashForManyQueriesAndSplitForFew) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const DeviceSpec device = *DeviceSpec::for_arch(arch);
    for (const char* cache : {",page=16,lens,causal", ",page=1,lens,causal", ",page=256", ",lens", ",left=128,right=0",
                              ",left=64,right=3,page=16,lens", ",packq,packk,causal", ",packq,lens,page=16,causal",
                              ",packq,packk,left=128,right=0", ",packk", ",packq"}) {
      for (const char* many : {"b=4,hq=32,hk=8,sq=100,sk=8192,d=128", "b=4,hq=32,hk=8,sq=4096,sk=8192,d=128"}) {
        const Space space = enumerate(problem_of(many + std::string(cache)), device);
        ASSERT_FALSE(space.ranked.empty()) << many << cache << " on " << arch;
        // Windows are none of warpgroup's.
        const bool wgmma = std::string(arch) == "sm_90a" && std::string(cache).find("left=") == std::string::npos;
        EXPECT_EQ(family_of(space.ranked.front()), wgmma ? "warpgroup" : "flash") << many << cache << " on " << arch;
      }
      for (const char* few : {"b=16,hq=32,hk=8,sq=1,sk=8192,d=128", "b=16,hq=32,hk=8,sq=16,sk=8192,d=128"}) {
        const Space space = enumerate(problem_of(few + std::string(cache)), device);
        EXPECT_TRUE(has(space, "split") && has(space, "flash")) << few << cache << " on " << arch;
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
        EXPECT_EQ(p.group() % shape_of(r.candidate).pack, 0);
      }
    }
  }
}

TEST(Space, TheHostHasOneWarpAndOneStage) {
  for (const char* shape : kShapes) {
    for (const Ranked& r : enumerate(problem_of(shape), host()).ranked) {
      EXPECT_NE(to_text(r.candidate).find(" warps=1 stages=1 "), std::string::npos) << to_text(r.candidate);
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

}  // namespace
}  // namespace gqa

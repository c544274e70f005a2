// tiles_test.cc: which candidates wgmma_flash has, for which problems. No device is asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

std::set<WgmmaFlash> warpgroup_candidates(const std::string& shape, const DeviceSpec& device = h200()) {
  std::vector<WgmmaFlash> found;
  enumerate(problem_of(shape), device, &found);
  return {found.begin(), found.end()};
}

// Those that are not refused.
std::set<WgmmaFlash> ranked_candidates(const std::string& shape) {
  std::set<WgmmaFlash> found = warpgroup_candidates(shape);
  std::erase_if(found, [&](const WgmmaFlash& c) { return !reject_reason(problem_of(shape), c, h200()).empty(); });
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
    for (const WgmmaFlash& c : warpgroup_candidates(shape)) found.insert(c.pack);
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
    for (const WgmmaFlash& c : warpgroup_candidates(shape)) found.insert(c.head_swizzle);
    return found;
  };
  EXPECT_EQ(orders("hq=32,hk=8,sq=4096,d=128"), (std::set<int>{0}));
  // 8 MiB a key/value head: 3 of them or 12, in whole groups or parts of them
  EXPECT_EQ(orders("b=4,hq=32,hk=8,sq=16384,d=128"), (std::set<int>{0, 3 * 4, 3 * 2, 3, 12 * 4, 12 * 2, 12}));
  EXPECT_EQ(orders("b=1,hq=8,hk=8,sq=65536,d=256"), (std::set<int>{0, 1, 4}));  // 64 MiB
}

TEST(Space, ClustersAreDynamicWhereAMaskMakesHeadsUneven) {
  const auto dynamic = [](const char* shape) {
    const std::set<WgmmaFlash> all = warpgroup_candidates(shape);
    return std::any_of(all.begin(), all.end(),
                       [](const WgmmaFlash& c) { return c.scheduler.is<DynamicTiles>() && c.cluster == 2; });
  };
  EXPECT_TRUE(dynamic("b=8,hq=8,sq=2048,d=256,causal"));
  EXPECT_FALSE(dynamic("b=8,hq=8,sq=2048,d=256"));                 // all tiles alike
  EXPECT_FALSE(dynamic("b=1,hq=8,sq=2048,d=256,causal"));          // keys fit L2
  EXPECT_FALSE(dynamic("b=8,hq=8,sq=512,sk=16384,d=256,causal"));  // nearly alike
}

TEST(Space, AOnesColumnHasThreeBuffersOfKeysOrFour) {
  for (const char* dtype : {"bf16", "f16"})
    for (const char* shape : {"sq=512", "sq=2048,causal", "sq=16384", "sq=16384,causal", "sq=512,sk=16384"}) {
      std::set<int> stages;  // of kernels with a ones column
      for (const WgmmaFlash& c : ranked_candidates("hq=32,d=64,lse=0,dtype=" + std::string(dtype) + "," + shape)) {
        if (c.has_ones()) stages.insert(c.stages);
      }
      EXPECT_EQ(stages, std::set<int>({3, 4})) << dtype << " " << shape;
    }
}

// 16k and 32 heads are 20.85 rounds of 192 rows.
TEST(Space, KernelsWithAOnesColumnHaveStreamK) {
  const std::set<WgmmaFlash> all = ranked_candidates("hq=32,sq=16384,d=64,lse=0");
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const WgmmaFlash& c) {
    const auto* stream_k = std::get_if<StreamK>(&c.scheduler.kind);
    return c.has_ones() && stream_k != nullptr && stream_k->clusters == 132;
  }));
}

// Pages that TMA's boxes do not fit are copied; of small ones that they do fit, either may be faster.
TEST(Space, PagesAreCopiedWhereBoxesDoNotFitOrAreMany) {
  const auto copies = [](const char* page) {
    std::set<int> found;
    for (const WgmmaFlash& c : ranked_candidates("b=4,hq=32,hk=8,sq=512,sk=8192,d=128,causal,lens" + std::string(page)))
      found.insert(c.copies_pages() ? 1 : 0);
    return found;
  };
  for (const char* page : {",page=1", ",page=2", ",page=3", ",page=4", ",page=7", ",page=12", ",page=100"})
    EXPECT_EQ(copies(page), std::set<int>({1})) << page;
  for (const char* page : {",page=8", ",page=16", ",page=32"}) EXPECT_EQ(copies(page), std::set<int>({0, 1})) << page;
  for (const char* page : {"", ",page=64", ",page=128", ",page=256"})
    EXPECT_EQ(copies(page), std::set<int>({0})) << page;
}

// No maps of keys; what the producer's warps tell each other is less than values' tails take.
TEST(Resources, CopiedPagesHaveNoBoxes) {
  const Problem p = problem_of("b=4,hq=32,hk=8,sq=512,sk=8192,d=128,lens,page=16");
  const std::string tile = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0";
  const auto of = [](const std::string& text) { return std::get<WgmmaFlash>(candidate_of(text).of); };
  const WgmmaFlash copying = of(tile + " cp_async=1");
  const LaunchPlan boxes = plan(p, of(tile)), copies = plan(p, copying);
  EXPECT_EQ(boxes.maps.keys, 16);
  EXPECT_EQ(copies.maps.keys, 0);
  EXPECT_TRUE(copies.brings(LaunchArgument::kMaps));
  EXPECT_EQ(boxes.maps.query_rows, copies.maps.query_rows);
  EXPECT_LE(copies.shared_memory, boxes.shared_memory);
  EXPECT_EQ(role_registers(p, copying).producer, 40);  // as many as keep its loop from spilling
}

// The buffer is as large as fits beside queries and keys: a tile of 128 rows and 64 keys has room for half of 256
// columns.
TEST(Space, OutHasTheFewestPartsThatFit) {
  const auto parts = [](int head_dim, int m, int n) {
    std::set<int> found;
    for (const WgmmaFlash& c : ranked_candidates("hq=8,sq=4096,d=" + std::to_string(head_dim))) {
      if (c.tile_m == m && c.tile_n == n) found.insert(c.out_parts);
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

// served_test.cc: what a family does not name it refuses. Deterministic, one thread.
#include "search/families/served.h"

#include <gtest/gtest.h>

#include "search/families/space.h"
#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

constexpr Served kDenseOnly = {{ElementType::kF16, ElementType::kBF16},
                               {Mask::kNone, Mask::kCausal},
                               {KeyLayout::kDense},
                               {Lengths::kOne},
                               {Lengths::kEach}};

TEST(Served, WhatIsNotNamedIsRefused) {
  const auto reason = [](const char* more) {
    return not_served(problem_of(std::string("hq=4,sq=7,sk=64,d=64,lens") + more), kDenseOnly, "it");
  };
  EXPECT_EQ(reason(""), "");
  EXPECT_EQ(reason(",causal"), "");
  EXPECT_EQ(reason(",dtype=f32"), "it serves no f32");
  EXPECT_EQ(reason(",left=3"), "it serves no window mask");
  EXPECT_EQ(reason(",page=16"), "it serves no paged keys");
  EXPECT_EQ(reason(",sink"), "it serves no sink");
  EXPECT_EQ(reason(",softcap"), "it serves no steps on scores");
  Served chains = kDenseOnly;
  chains.chain = true;
  EXPECT_EQ(not_served(problem_of("hq=4,sq=7,sk=64,d=64,lens,scores=mulhead"), chains, "it"),
            "it serves no steps on scores that read arrays");
  EXPECT_EQ(reason(",packq"), "it serves no packed sequences of queries");
  EXPECT_EQ(not_served(problem_of("hq=4,sq=7,sk=64,d=64"), kDenseOnly, "it"), "it serves no one length of keys");
  EXPECT_EQ(not_served(problem_of("hq=4,sq=7,sk=64,d=64,packk"), kDenseOnly, "it"),
            "it serves no packed sequences of keys");
}

TEST(Served, WarpgroupRefusesByItsName) {
  const DeviceSpec hopper = *DeviceSpec::for_arch("sm_90a");
  for (const char* more : {",left=3", ",left=3,packq,packk", ",left=3,page=1", ",sink", ",sink,lens"}) {
    const Space space = enumerate(problem_of(std::string("hq=8,sq=512,sk=512,d=128") + more), hopper);
    for (const Ranked& ranked : space.ranked) EXPECT_NE(name(ranked.candidate), "warpgroup") << more;
  }
}

// Tiles of all kinds, but none that counts blocks or keys of one length.
TEST(Served, WarpgroupServesListedSequences) {
  const DeviceSpec hopper = *DeviceSpec::for_arch("sm_90a");
  for (const char* more :
       {",lens", ",lens,causal", ",lens,softcap", ",packq", ",packk", ",packq,packk,causal", ",packq,lens,page=16",
        ",page=16", ",page=64,lens,causal", ",packq,lens,page=7", ",page=1"}) {
    const Problem p = problem_of(std::string("b=4,hq=8,sq=512,sk=512,d=128") + more);
    int kernels = 0;
    for (const Ranked& ranked : enumerate(p, hopper).ranked) kernels += name(ranked.candidate) == "warpgroup" ? 1 : 0;
    EXPECT_GT(kernels, 10) << more;
    std::string tile = "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1 ";
    if (p.paged() && p.page < 8) tile += "cp_async=1 ";
    EXPECT_EQ(reason(to_text(p), tile + "cluster=2"),
              "cluster of 2 where sequences have lengths or pages of their own: its CTAs share keys");
    EXPECT_EQ(reason(to_text(p), tile + "stream_k=132"),
              "stream_k=132 where sequences have lengths or pages of their own: its shares count blocks of one length");
  }
}

// The keys of a box are rows of one page, by eights. Warps that copy take any page.
TEST(Served, WarpgroupServesPagesThatTmaCanBringAndCopiesOthers) {
  const std::string p = "b=4,hq=8,sq=512,sk=512,d=128,lens,page=",
                    tile = "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=0";
  for (const char* page : {"8", "16", "24", "40", "64", "256"}) EXPECT_EQ(reason(p + page, tile), "") << page;
  EXPECT_EQ(reason(p + "12", tile),
            "pages of 12 keys for steps of 80: TMA brings 8 rows of a page, or a multiple, at once; cp_async=1 copies "
            "any");
  EXPECT_NE(reason(p + "1", tile), "");
  for (const char* page : {"1", "2", "3", "4", "7", "12", "16", "64", "1000"})
    EXPECT_EQ(reason(p + page, tile + " cp_async=1"), "") << page;
  EXPECT_EQ(reason("b=4,hq=8,sq=512,sk=512,d=128,lens", tile + " cp_async=1"),
            "cp_async=1 for keys that lie in no pages: TMA brings them");
  EXPECT_EQ(reason(p + "1,align=2", tile + " cp_async=1"), "rows aligned to 2 bytes: TMA needs 16");
}

}  // namespace
}  // namespace gqa

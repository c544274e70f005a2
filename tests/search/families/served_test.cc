// served_test.cc: what a family does not name it refuses. Deterministic, one thread.
#include "search/families/served.h"

#include <gtest/gtest.h>

#include "search/families/space.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

constexpr Served kDenseOnly = {{Mask::kNone, Mask::kCausal}, {KeyLayout::kDense}, {Lengths::kOne}, {Lengths::kEach}};

TEST(Served, WhatIsNotNamedIsRefused) {
  const auto reason = [](const char* more) {
    return not_served(problem_of(std::string("hq=4,sq=7,sk=64,d=64,lens") + more), kDenseOnly, "it");
  };
  EXPECT_EQ(reason(""), "");
  EXPECT_EQ(reason(",causal"), "");
  EXPECT_EQ(reason(",left=3"), "it serves no window mask");
  EXPECT_EQ(reason(",page=16"), "it serves no paged keys");
  EXPECT_EQ(reason(",sink"), "it serves no sink");
  EXPECT_EQ(reason(",softcap"), "it serves no steps on scores");
  EXPECT_EQ(reason(",packq"), "it serves no packed sequences of queries");
  EXPECT_EQ(not_served(problem_of("hq=4,sq=7,sk=64,d=64"), kDenseOnly, "it"), "it serves no one length of keys");
  EXPECT_EQ(not_served(problem_of("hq=4,sq=7,sk=64,d=64,packk"), kDenseOnly, "it"),
            "it serves no packed sequences of keys");
}

TEST(Served, WarpgroupRefusesByItsName) {
  const DeviceSpec hopper = *DeviceSpec::for_arch("sm_90a");
  for (const char* more : {",left=3", ",page=16", ",lens", ",packk", ",packq", ",sink"}) {
    const Space space = enumerate(problem_of(std::string("hq=8,sq=512,sk=512,d=128") + more), hopper);
    for (const Ranked& ranked : space.ranked) EXPECT_NE(name(ranked.candidate), "warpgroup") << more;
  }
}

}  // namespace
}  // namespace gqa

// cost_test.cc: what the model of mma_flash must know. No device is asked.
#include <gtest/gtest.h>

#include "search/families/walk_cost.h"
#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

TEST(Rank, HeadByHeadPaysWhereKeysDoNotFitL2) {
  const Problem p = problem_of("b=64,hq=32,sq=2048,d=128,causal");
  const std::string tile = "flash m=64 n=16 warps=4 stages=3 pack=1";
  const double across = predict_us(p, candidate_of(tile), h200());
  const Candidate c = candidate_of(tile + " head_swizzle=1");
  EXPECT_LE(predict_us(p, c, h200()), across * 1.01);
}

// A tile's rows see a window of keys, and those of the rows between.
TEST(Rank, AWindowIsPricedByTheBlocksThatTilesVisit) {
  CandidateShape shape;  // 64 rows, 64 keys a step
  const KeySteps window = steps_of(problem_of("hq=8,sq=1024,sk=1024,d=128,left=128,right=0"), shape, 64);
  EXPECT_EQ(window.most, 3);
  EXPECT_EQ(window.average, (1 + 2 + 14 * 3) / 16.0);  // before the first tiles there are no keys
  EXPECT_EQ(steps_of(problem_of("hq=8,sq=64,sk=4096,d=128,left=128,right=0"), shape, 64).most, 3);
  const KeySteps all = steps_of(problem_of("hq=8,sq=4096,sk=4096,d=128"), shape, 64);
  EXPECT_EQ(all.most, 64);
  EXPECT_EQ(all.average, 64);
}

TEST(Rank, AWindowCostsWhatItShows) {
  const Candidate c = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1");
  double before = 0;
  for (const char* window : {",left=64,right=0", ",left=512,right=0", ",left=3000,right=0", ""}) {
    const double us = predict_us(problem_of("b=64,hq=32,hk=8,sq=4096,sk=4096,d=128" + std::string(window)), c, h200());
    EXPECT_GT(us, 1.2 * before) << window;
    before = us;
  }
  const double narrow = predict_us(problem_of("b=64,hq=32,hk=8,sq=4096,sk=4096,d=128,left=64,right=0"), c, h200());
  EXPECT_LT(narrow, before / 10);
}

}  // namespace
}  // namespace gqa

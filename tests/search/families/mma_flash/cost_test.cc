// cost_test.cc: what the model of mma_flash must know. No device is asked.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gqa

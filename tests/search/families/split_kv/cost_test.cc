// cost_test.cc: what the model of split_kv must know. No device is asked.
#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

TEST(Rank, SplittingPaysOnlyWhereProcessorsAreIdle) {
  const Candidate one = candidate_of("split m=16 n=32 warps=4 stages=3 pack=4");
  const Candidate many = candidate_of("split m=16 n=32 warps=4 stages=3 pack=4 splits=16");
  const Problem alone = problem_of("hq=32,hk=8,sq=1,sk=8192,d=128");
  const Problem batch = problem_of("b=128,hq=32,hk=8,sq=1,sk=8192,d=128");
  EXPECT_LT(predict_us(alone, many, h200()), predict_us(alone, one, h200()));
  EXPECT_GT(predict_us(batch, many, h200()), predict_us(batch, one, h200()));
}

}  // namespace
}  // namespace gqa

// The cost model's error, from attempts made up here.
#include "runtime/tuner/model_error.h"

#include <gtest/gtest.h>

namespace gqa {
namespace {

Attempt timed(double predicted_us, double median_us) {
  Attempt attempt;
  attempt.predicted_us = predicted_us;
  attempt.median_us = median_us;
  attempt.samples = 4;
  return attempt;
}

TEST(ModelError, ARankingThatIsRight) {
  const ModelError error = model_error({timed(3, 30), timed(1, 10), timed(2, 20)});
  EXPECT_EQ(error.timed, 3);
  EXPECT_EQ(error.rank, 1);
  EXPECT_DOUBLE_EQ(error.correlation, 1);
  EXPECT_EQ(to_text(error), "predicted 1.0 us, rank 1 of 3, rank correlation 1.00");
}

TEST(ModelError, ARankingThatIsBackwards) {
  const ModelError error = model_error({timed(1, 30), timed(2, 20), timed(3, 10)});
  EXPECT_EQ(error.rank, 3);
  EXPECT_DOUBLE_EQ(error.correlation, -1);
  EXPECT_EQ(error.predicted_us, 3);
  EXPECT_EQ(error.measured_us, 10);
}

TEST(ModelError, EqualPredictionsShareTheirRankAndCountForTheFastest) {
  const ModelError error = model_error({timed(5, 12), timed(5, 11), timed(5, 13)});
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.correlation, 0);
}

TEST(ModelError, WhatWasNotTimedDoesNotCount) {
  Attempt pruned;
  pruned.outcome = "pruned";
  const ModelError error = model_error({pruned, timed(5, 12), pruned});
  EXPECT_EQ(error.timed, 1);
  EXPECT_EQ(error.rank, 1);
  EXPECT_DOUBLE_EQ(error.correlation, 1);
  EXPECT_EQ(to_text(model_error({pruned})), "");
  EXPECT_EQ(model_error({}).rank, 0);
}

}  // namespace
}  // namespace gqa

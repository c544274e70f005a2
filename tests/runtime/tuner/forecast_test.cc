// forecast_test.cc: a forecast of misses beside what the misses then do, on a device that counts.
#include "runtime/tuner/forecast.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"
#include "search/problem/signature.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

class ForecastTest : public ::testing::Test {
 protected:
  ForecastTest() {
    cache::Store::Options options;
    options.path = folder_.file("cache.db");
    store_ = cache::Store::open(options);
  }

  Outlook look(Forecast::Work work = Forecast::Work::kTune) {
    Forecast forecast(device_, *store_, policy_, work);
    for (const Problem& problem : problems_) {
      AttentionWorkload workload{Signature(problem)};
      EXPECT_TRUE(forecast.add(workload).ok());
    }
    return forecast.outlook();
  }

  void tune_and_keep(const Problem& problem, bool provisional) {
    AttentionWorkload workload{Signature(problem)};
    CompilePool compile_pool(device_, *store_, policy_.compile_threads);
    Tuned tuned;
    ASSERT_TRUE(tune(device_, compile_pool, workload, policy_, Effort(policy_.budget_seconds), {}, &tuned).ok());
    tuned.winner.provisional = provisional;
    ASSERT_TRUE(store_->put_winner(tuned.winner));
  }

  TemporaryFolder folder_;
  FakeWorld world_;
  FakeDevice device_{&world_};
  std::unique_ptr<cache::Store> store_;
  TunePolicy policy_;
  // The first two need the same kernels.
  std::vector<Problem> problems_ = {small_problem("b=1,hq=8,hk=2,sq=256,sk=256,d=64,causal"),
                                    small_problem("b=2,hq=8,hk=2,sq=256,sk=256,d=64,causal"),
                                    small_problem("b=1,hq=8,hk=2,sq=1,sk=256,d=64,lens")};
};

TEST_F(ForecastTest, CountsTheKernelsThatMissesThenCompile) {
  const Outlook before = look();
  EXPECT_EQ(before.workloads, 3);
  EXPECT_EQ(before.ready, 0);
  EXPECT_EQ(before.to_compile, before.kernels);
  EXPECT_EQ(before.most_seconds, 3 * policy_.budget_seconds);
  EXPECT_GT(before.seconds, 0);
  for (const Problem& problem : problems_) tune_and_keep(problem, false);
  EXPECT_EQ(world_.compiles, before.kernels);
  const Outlook after = look();
  EXPECT_EQ(after.ready, 3);
  EXPECT_EQ(after.kernels, 0);
  EXPECT_EQ(after.seconds, 0);
  EXPECT_EQ(after.most_seconds, 0);
}

TEST_F(ForecastTest, AGuessIsNotReadyAndItsKernelsAreCached) {
  problems_.resize(1);
  tune_and_keep(problems_.front(), true);
  const Outlook outlook = look();
  EXPECT_EQ(outlook.ready, 0);
  EXPECT_GT(outlook.kernels, 0);
  EXPECT_EQ(outlook.to_compile, 0);
}

TEST_F(ForecastTest, CompilingAloneTakesNoTimeToTime) {
  tune_and_keep(problems_.front(), false);
  const Outlook outlook = look(Forecast::Work::kCompile);
  EXPECT_EQ(outlook.ready, 0) << "no winner makes a kernel of this compiler";
  EXPECT_LT(outlook.to_compile, outlook.kernels);
  EXPECT_LT(outlook.seconds, look().seconds);
}

}  // namespace
}  // namespace gqa::test

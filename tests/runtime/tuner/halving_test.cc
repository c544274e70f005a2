// halving_test.cc: the race finds the fastest under noise, with seeds that make it the same every time.
#include "runtime/tuner/halving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gqa {
namespace {

struct HalvingCase {
  std::vector<double> true_us;
  double noise = 0;                 // relative
  double outliers = 0;              // share of samples that take three times as long
  double drift = 0;                 // relative, a sample, hitting all alike
  int samples = 0;                  // taken
  int most = 1 << 30;               // then time is out
  std::vector<int> exactness = {};  // none: all alike
  bool brief = false;
  std::mt19937 random{7};

  int run(std::vector<Runner>* runners) {
    runners->clear();
    for (std::size_t i = 0; i < true_us.size(); ++i) {
      runners->emplace_back().order = i;
      if (i < exactness.size()) runners->back().exactness = exactness[i];
    }
    Race timing;
    timing.sample = [this](std::size_t index, int count, std::vector<double>* us) {
      for (int i = 0; i < count; ++i) us->push_back(sample(index));
      return true_us[index] > 0 ? Status() : Status(Code::kDeviceFailed, "cannot run");
    };
    timing.out_of_time = [this] { return samples >= most; };
    timing.brief = brief;
    return race(timing, runners);
  }

  double sample(std::size_t index) {
    std::normal_distribution<double> spread(1, noise > 0 ? noise : 1e-9);
    std::uniform_real_distribution<double> chance(0, 1);
    const double slow = chance(random) < outliers ? 3 : 1;
    return true_us[index] * std::max(0.2, spread(random)) * slow * (1 + drift * samples++);
  }
};

// How often, over 100 seeds, what was picked is within `tolerance` of the fastest.
int good_picks(HalvingCase course, double tolerance) {
  int good = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    HalvingCase run = course;
    run.random.seed(seed);
    std::vector<Runner> runners;
    const int winner = run.run(&runners);
    const double fastest = *std::min_element(run.true_us.begin(), run.true_us.end());
    good += winner >= 0 && run.true_us[static_cast<std::size_t>(winner)] <= fastest * (1 + tolerance);
  }
  return good;
}

TEST(Halving, FindsTheFastestWithoutNoise) {
  HalvingCase course{{30, 12, 10, 50, 11}};
  std::vector<Runner> runners;
  EXPECT_EQ(course.run(&runners), 2);
  EXPECT_EQ(runners[2].samples.size(), 4u);
  EXPECT_EQ(runners[3].samples.size(), 2u);  // five times slower: asked once more, as a pause may have been
}

TEST(Halving, FindsTheFastestUnderNoise) {
  EXPECT_GE(good_picks({{100, 105, 110, 120, 103, 140, 101, 150, 130, 112}, 0.02}, 0.02), 97);
  EXPECT_GE(good_picks({{140, 105, 110, 120, 103, 100, 101, 150, 130, 112}, 0.05}, 0.05), 95);
}

// A dozen of which four are within 5 %, and time for two or three samples of each.
TEST(Halving, ABriefRaceSpendsItsSamplesOnTheQuickest) {
  const std::vector<double> times = {117, 103, 149, 131, 100, 142, 109, 125, 104, 136, 113, 102};
  HalvingCase even{times, 0.06, 0.05, 0, 0, 30}, brief = even;
  brief.brief = true;
  const int by_halves = good_picks(brief, 0.05);
  EXPECT_GE(by_halves, 88);
  EXPECT_GE(by_halves, good_picks(even, 0.05));
}

TEST(Halving, ABriefRaceDropsNobodyWhoHadNoTurn) {
  HalvingCase course{{100, 110, 120, 50}, 0, 0, 0, 0, 2};
  course.brief = true;
  std::vector<Runner> runners;
  EXPECT_EQ(course.run(&runners), 0);
  EXPECT_TRUE(runners[2].samples.empty() && runners[3].samples.empty());
  EXPECT_EQ(runners[3].why_out, "");
}

TEST(Halving, OutliersDoNotDecide) { EXPECT_GE(good_picks({{100, 110, 120, 130, 115, 140}, 0.02, 0.1}, 0.02), 95); }

TEST(Halving, DriftHitsAllAlike) {
  // Clocks fall by half over the race; the last to start would lose if each took its samples alone.
  EXPECT_GE(good_picks({{120, 115, 110, 105, 100}, 0.005, 0, 0.002}, 0.02), 97);
}

TEST(Halving, SpendsSamplesWhereItIsClose) {
  HalvingCase clear{{100, 150, 160, 170, 180, 190, 200, 210}, 0.02};
  HalvingCase close{{100, 101.5, 160, 170, 180, 190, 200, 210}, 0.02};
  std::vector<Runner> runners;
  EXPECT_EQ(clear.run(&runners), 0);
  EXPECT_LT(clear.samples, 8 * 10);
  close.run(&runners);
  EXPECT_GT(runners[0].samples.size(), 8u);
  EXPECT_LE(runners[7].samples.size(), 8u);
}

TEST(Halving, TiesAreBrokenByCandidateOrder) {
  std::vector<Runner> runners;
  EXPECT_EQ((HalvingCase{{100.4, 100.2, 100}}).run(&runners), 0);
  EXPECT_EQ((HalvingCase{{100.6, 100.2, 100}}).run(&runners), 1);
}

TEST(Halving, AMoreExactOneWinsWhereNoNoiseTellsThemApart) {
  std::vector<Runner> runners;
  HalvingCase alike{{100, 100.4, 100.2}};
  alike.exactness = {2, 0, 0};
  EXPECT_EQ(alike.run(&runners), 1) << "of two as exact the first";
  HalvingCase slower{{100, 110, 130}};
  slower.exactness = {2, 1, 0};
  EXPECT_EQ(slower.run(&runners), 0);
  int exact = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    HalvingCase noisy{{100, 101}, 0.1};
    noisy.exactness = {1, 0};
    noisy.random.seed(seed);
    exact += noisy.run(&runners) == 1;
  }
  EXPECT_GE(exact, 75) << "1 % under a noise of 10";
}

TEST(Halving, AFailureIsNeverChosen) {
  std::vector<Runner> runners;
  EXPECT_EQ((HalvingCase{{0, 20, 10}}).run(&runners), 2);
  EXPECT_TRUE(runners[0].failed);
  EXPECT_EQ(runners[0].why_out, "cannot run");
  EXPECT_EQ((HalvingCase{{0, 0}}).run(&runners), -1);
  EXPECT_EQ((HalvingCase{{}}).run(&runners), -1);
}

TEST(Halving, TheFirstIsTimedEvenIfTimeIsOut) {
  std::vector<Runner> runners;
  HalvingCase course{{10, 5}};
  course.most = 0;
  EXPECT_EQ(course.run(&runners), 0);
  EXPECT_EQ(course.samples, 1);
  HalvingCase failing{{0, 5, 4}};  // the first cannot run: the next gets its turn
  failing.most = 0;
  EXPECT_EQ(failing.run(&runners), 1);
}

TEST(Statistics, MedianSpreadAndError) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  const Summary summary = summarize({1, 2, 3, 4, 100});
  EXPECT_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.spread, 1.4826);
  EXPECT_NEAR(summary.error, 1.2533 * 1.4826 / std::sqrt(5), 1e-12);
  EXPECT_TRUE(clearly_faster({1, 0.1, 0.01}, {1.1, 0.1, 0.01}));
  EXPECT_FALSE(clearly_faster({1, 0.1, 0.1}, {1.1, 0.1, 0.1}));
}

}  // namespace
}  // namespace gqa

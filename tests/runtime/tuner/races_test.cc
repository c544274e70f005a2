// races_test.cc: a race that load disturbs is repeated, or says so; a quiet one is neither. Noise is scripted.
#include "runtime/tuner/races.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace gqa {
namespace {

// Candidates of known speed on a device of known load.
struct Loaded {
  std::vector<double> true_us;
  double noise = 0.02;
  std::function<double(std::size_t index, int nth)> slowdown = [](std::size_t, int) { return 1.0; };
  std::function<double(int race)> others = [](int) { return 0.0; };
  int most_samples = 1 << 30;  // then the budget is spent
  double seconds_left = 100;
  int taken = 0, looks = 0;
  std::mt19937 random{7};

  Raced run() {
    std::vector<Runner> runners(true_us.size());
    for (std::size_t i = 0; i < runners.size(); ++i) runners[i].order = i;
    Course course;
    course.sample = [this](std::size_t index, int count, std::vector<double>* us) {
      std::normal_distribution<double> spread(1, noise);
      for (int i = 0; i < count; ++i, ++taken)
        us->push_back(true_us[index] * std::max(0.5, spread(random)) * slowdown(index, taken));
      return Status();
    };
    course.stop = [this] { return taken >= most_samples; };
    course.seconds_left = [this] { return seconds_left; };
    course.most_seconds = [](double) { return std::numeric_limits<double>::infinity(); };
    course.others = [this] { return others(looks++ / 2 + 1); };  // two looks a race: as it begins and as it ends
    course.progress = [](const std::vector<Runner>&) {};
    return run_races(course, runners);
  }
};

const std::vector<double> kField = {100, 105, 110, 120, 103, 140, 101, 150, 130, 112};

TEST(Races, AQuietDeviceHasOneRaceAndNothingToSay) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    Loaded device{kField};
    device.random.seed(seed);
    const Raced raced = device.run();
    EXPECT_EQ(raced.races, 1) << seed;
    EXPECT_EQ(raced.disturbed, "") << seed;
  }
}

TEST(Races, WhatOthersTakeIsNoticedAndTheRaceRepeated) {
  Loaded device{kField};
  device.others = [](int race) { return race == 1 ? 0.5 : 0.02; };
  Raced raced = device.run();
  EXPECT_EQ(raced.races, 2);
  EXPECT_EQ(raced.disturbed, "");
  device.looks = 0;
  device.others = [](int) { return 0.5; };
  raced = device.run();
  EXPECT_EQ(raced.races, 3);
  EXPECT_EQ(raced.disturbed, "others had 50 % of the device");
  EXPECT_GE(raced.winner, 0);
}

TEST(Races, NoneIsRepeatedThatTheBudgetDoesNotSufficeFor) {
  Loaded device{kField};
  device.others = [](int) { return 0.5; };
  device.seconds_left = 0;
  EXPECT_EQ(device.run().races, 1);
}

// A pause of 12 ms in the only sample that there was time for.
TEST(Races, OneSpoiltSampleDoesNotStandForTheWinner) {
  Loaded device{{22, 23}};
  device.slowdown = [](std::size_t, int nth) { return nth == 0 ? 545.0 : 1.0; };
  device.most_samples = 1;
  const Raced raced = device.run();
  EXPECT_EQ(raced.winner, 0);
  EXPECT_NEAR(raced.runners[0].summary.median, 22, 2);
  EXPECT_NE(raced.disturbed.find("timed once more"), std::string::npos) << raced.disturbed;
}

TEST(Races, APauseInARivalsFirstSampleDoesNotEndItsRace) {
  Loaded device{{100, 50}};
  device.slowdown = [](std::size_t index, int nth) { return index == 1 && nth == 1 ? 100.0 : 1.0; };
  EXPECT_EQ(device.run().winner, 1);
}

TEST(Races, LoadThatEndsWithTheRaceIsNoticed) {
  Loaded device{{100, 160, 170}};
  device.slowdown = [](std::size_t, int nth) { return nth < 12 ? 1.3 : 1.0; };
  const Raced raced = device.run();
  EXPECT_EQ(raced.races, 2);
  EXPECT_EQ(raced.disturbed, "");
  EXPECT_NEAR(raced.runners[0].summary.median, 100, 5);
}

Runner runner_of(const std::vector<double>& samples) {
  Runner runner;
  runner.samples = samples;
  runner.summary = summarize(samples);
  return runner;
}

TEST(Races, SamplesThatDifferTooMuchToTellAreNoticed) {
  const std::vector<Runner> apart = {runner_of({100, 101, 99, 100}), runner_of({106, 107, 105, 106})};
  EXPECT_EQ(disturbance(apart, 0, apart[0].summary, 0), "");
  const std::vector<Runner> wide = {runner_of({92, 108, 95, 105}), runner_of({94, 112, 97, 109})};
  EXPECT_EQ(disturbance(wide, 0, wide[0].summary, 0).rfind("the samples differ so much that a rival may be 1.", 0), 0U);
  const std::vector<Runner> late = {runner_of({100, 100, 100, 100}), runner_of({120, 121, 180, 190})};
  EXPECT_EQ(disturbance(late, 0, late[0].summary, 0),
            "25 % of the samples took far longer than others of their candidate");
}

// The promise: within 1.1 of the fastest, or provisional. Bursts of a few samples make it half of the time up to three
// times as slow. One that begins and ends with a candidate's turn looks like the candidate.
TEST(Races, BesideBurstsTheWinnerIsGoodOrSaidToBeDoubtful) {
  int slow = 0, wrong = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Loaded device{kField};
    std::mt19937 load(seed);
    device.random.seed(seed);
    double now = 1;
    device.slowdown = [&](std::size_t, int) {
      if (load() % 6 == 0) now = load() % 2 == 0 ? 1 : 1 + 0.001 * static_cast<double>(load() % 2000);
      return now;
    };
    device.most_samples = 40 + static_cast<int>(load() % 100);
    const Raced raced = device.run();
    ASSERT_GE(raced.winner, 0);
    const double slower = kField[static_cast<std::size_t>(raced.winner)] / 100;
    slow += slower > 1.1 ? 1 : 0;
    wrong += slower > 1.1 && raced.disturbed.empty() ? 1 : 0;
  }
  EXPECT_GT(slow, 14);
  EXPECT_LE(wrong, 10);
}

}  // namespace
}  // namespace gqa

// races.h: races on a device that may not be the tuner's alone.
// Owns: when a race ends; whether load disturbed it, by what others took of the device, by the winner timed once more
// and by the spread of the samples; and racing again, while time is left, until a race is undisturbed. Never: launches
// anything; the course does. Threads: one caller.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/tuner/halving.h"

namespace gqa {

// What others may take of a device: an idle host's threads wait a little for a core, too.
inline constexpr double kMostOthers = 0.15;

struct Course {
  std::function<Status(std::size_t index, int count, std::vector<double>* microseconds)> sample;  // as Race::sample
  std::function<bool()> stop;                          // cancelled, broken, or the budget is spent
  std::function<double()> seconds_left;                // of the budget
  std::function<double(double best_us)> most_seconds;  // of one race
  std::function<double()> others;                      // as Trial::taken_by_others
  std::function<void(const std::vector<Runner>&)> progress;
  int most_races = 3;
  bool brief = false;  // as Race::brief
};

struct Raced {
  std::vector<Runner> runners;  // as the last race left them
  int winner = -1;              // of it; -1: none
  int races = 0;
  std::string disturbed;  // what disturbed it; "": nothing
};

Raced run_races(const Course& course, const std::vector<Runner>& starting);

// What speaks against a race's winner: "" where nothing does. `again`: the winner, timed once more after the race.
std::string disturbance(const std::vector<Runner>& runners, int winner, const Summary& again, double others);

}  // namespace gqa

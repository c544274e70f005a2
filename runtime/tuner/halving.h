// halving.h: which of several runners is the fastest, with as few launches as the noise allows.
// Owns: the race: runners take turns (so drift hits all alike), each round doubles the samples and drops those of
// the slower half that are clearly slower, or, where time is short, the slower half; finalists go on until the
// difference is clear of the noise or under 0.5 %; what stays within 0.5 % is decided by the order given, so that the
// same machine picks the same winner; a more exact one wins already where the difference is not clear of the noise.
// Never: launches anything or reads a clock: the sampler and `out_of_time` do.
// Threads: one caller.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tuner/statistics.h"
#include "search/status.h"

namespace gqa {

struct Runner {
  int exactness = 0;            // of those that no noise tells apart the lowest wins
  std::size_t order = 0;        // and of those alike in that, within 0.5 %, the lowest
  std::vector<double> samples;  // microseconds
  Summary summary;
  bool racing = true;   // one that begins with false takes no part
  std::string why_out;  // once no longer racing: "4.1 times slower than the best", or the sampler's error
  bool failed = false;  // the sampler failed: never chosen
};

struct Race {
  // Appends `count` samples of runner `index`.
  std::function<Status(std::size_t index, int count, std::vector<double>* microseconds)> sample;
  std::function<bool()> out_of_time;
  std::function<void()> progress;  // after every turn; may be empty
  // There is time for a few samples of each: who is in the slower half after the first has no second, so that the
  // quickest get as many as can be.
  bool brief = false;
};

std::string times_slower(double factor);  // "1.20 times the best candidate's time"

// How a race stands, for progress: those with samples that did not fail, and the lowest median; 0: none yet.
struct Standing {
  int timed = 0;
  double best_us = 0;
};
Standing standing(const std::vector<Runner>& runners);

// Index of the winner, or -1 if every runner failed. Every runner that does not fail gets a sample unless time runs
// out; the first gets one even then.
int race(const Race& race, std::vector<Runner>* runners);

}  // namespace gqa

// tuner.h: from a problem to a verified, timed winner.
// Owns: one miss: enumerate, compile the best few in parallel (taking kernels the cache already holds), verify, time by
// successive halving, pick; and the evidence of all that.
// Never: touches the session's map; keeps nothing between misses.
// Threads: tune() blocks its caller; it starts compile threads of its own and joins them. Progress is called from the
// tuning thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/effort.h"
#include "runtime/workload/keys.h"
#include "search/families/space.h"

namespace gqa {

class Background;

struct TunePolicy {
  double budget_seconds = 8;
  int compile_threads = 0;           // 0: all cores
  int max_candidates = 12;           // compiled at most
  bool guess = false;                // the model's best that verifies, untimed
  const Effort* effort = nullptr;    // of this miss; null: budget_seconds from here on, and nobody cancels
  Background* background = nullptr;  // takes compilations that nobody waits for; null: all are waited for
};

enum class TunePhase { kSearch, kCompile, kVerify, kTime, kPersist };

struct Progress {
  TunePhase phase = TunePhase::kSearch;
  int enumerated = 0, pruned = 0, selected = 0, compiled = 0, verified = 0, timed = 0;
  double best_us = 0;       // 0: none yet
  double seconds = 0;       // since the miss
  double seconds_left = 0;  // of the budget
};
using ProgressFn = std::function<void(const Progress&)>;

// What became of one candidate, or of one program of a graph; all of them are kept with the winner as evidence.
struct Fate {
  double predicted_us = 0;
  // "winner", "slower", "untimed", "spilled", "compile failed", "load failed", "verify failed", "launch failed",
  // "not tried" (ranked too low, or no budget left), "pruned"; of precompile: "compiled", "in the cache already"
  std::string outcome;
  std::string detail;  // the reason, the worst element, the compiler's first error line
  double median_us = 0, spread_us = 0;
  double error = 0, bound = 0;
  int samples = 0;
  std::vector<double> timings;  // microseconds, all of them, in the order taken
};

struct Attempt : Fate {
  Candidate candidate;
};

// Seconds. Compilation runs beside verification, so `compile` is what the tuner waited for compilers: the phases add up
// to the miss.
struct PhaseTimes {
  double search = 0, compile = 0, verify = 0, time = 0, persist = 0;
  double first_correct = 0;  // from the miss to the first candidate that verified
};

struct Tuned {
  Candidate candidate;
  std::unique_ptr<Kernel> kernel;
  cache::WinnerRow winner;
  std::vector<Attempt> attempts;
  PhaseTimes times;
};

// Tunes the problem (a signature) on the device. Compiled kernels are put in the store as they are made; the winner is
// not (the session does, under its lease). kNoCandidate names every reason when nothing is left. kCancelled: soon after
// the effort was.
Status tune(Device& device, cache::Store& store, const Problem& problem, const TunePolicy& policy,
            const ProgressFn& progress, Tuned* tuned);

// Compile-only: compiles the most promising candidates for an architecture and keeps the kernels, unmeasured; the first
// device to see them only verifies and times.
Status precompile(const Device& device, cache::Store& store, const Problem& problem, const TunePolicy& policy,
                  const ProgressFn& progress, std::vector<Attempt>* attempts);

// The evidence as JSON, what cache::WinnerRow::evidence holds.
// Clocks in MHz before and after timing; 0: not known.
std::string evidence_json(const std::vector<Attempt>& attempts, const PhaseTimes& times, double clock_mhz,
                          double clock_after_mhz = 0);

}  // namespace gqa

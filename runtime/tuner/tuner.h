// tuner.h: from a workload to a verified, timed winner.
// Owns: one miss: the search's options, compiling the best few in parallel (taking kernels the cache already holds),
// verifying, timing by successive halving, picking; and the evidence of all that.
// Never: prefers an option whose exponentials may overflow where one verified whose cannot, whatever its speed; touches
// the session's map; keeps anything between misses.
// Threads: tune() blocks its caller, and ends soon after its effort is cancelled. Progress is called from the tuning
// thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/attempt.h"
#include "runtime/tuner/compile_pool.h"
#include "runtime/workload/workload.h"

namespace gqa {

struct TunePolicy {
  double budget_seconds = 8;
  int compile_threads = 0;  // 0: usable_threads()
  int max_candidates = 12;  // compiled at most
  bool guess = false;       // the model's best that verifies, untimed
  bool heed_load = true;    // false: a race counts whatever else the device did; for a machine that is always busy
};

enum class TunePhase { kSearch, kCompile, kVerify, kTime, kPersist };

struct Progress {
  TunePhase phase = TunePhase::kSearch;
  std::int64_t enumerated = 0, pruned = 0, proved = 0;  // what the search looked at
  std::int64_t selected = 0, kernels = 0;               // options to try, and the kernels that they need
  std::int64_t compiled = 0, verified = 0, timed = 0;
  double best_us = 0;       // 0: none yet
  double seconds = 0;       // since the miss
  double seconds_left = 0;  // of the budget
};
using ProgressFn = std::function<void(const Progress&)>;

struct Tuned {
  Program program;
  std::unique_ptr<LoadedProgram> loaded;
  // Provisional where some options were not tried for lack of memory, or load disturbed the race; untimed where memory
  // sufficed for none.
  cache::WinnerRow winner;
  std::string disturbed;  // how; "": not
  std::vector<Attempt> attempts;
  PhaseTimes times;
};

// Compiled kernels are put in the store as they are made; the winner is not (the session does, under its lease).
// kNoCandidate names every reason when nothing is left; kCancelled where the effort was.
Status tune(Device& device, CompilePool& compile_pool, Workload& workload, const TunePolicy& policy,
            const Effort& effort, const ProgressFn& progress, Tuned* tuned);

// Compile-only: compiles the most promising options for an architecture and keeps the kernels, unmeasured; the first
// device to see them only verifies and times.
Status precompile(const Device& device, cache::Store& store, Workload& workload, const TunePolicy& policy,
                  const ProgressFn& progress, std::vector<Attempt>* attempts);

}  // namespace gqa

// graph_tuner.h: from a user's graph to a verified, timed program; tuner.h is the same for an attention problem.
// Owns: one miss of a graph: search, choose and prove again, compile the distinct kernels in parallel (taking those the
// cache already holds), verify, time by successive halving, pick; and the evidence of all that.
// Never: prefers a program whose exponentials may overflow where one verified whose cannot, whatever its speed; keeps
// anything between misses.
// Threads: tune_graph() blocks its caller; it starts compile threads of its own and joins them. Progress is called from
// the tuning thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/program.h"
#include "runtime/tuner/tuner.h"
#include "search/graph/enumerate/superoptimize.h"

namespace gqa {

struct GraphQuestion {
  KernelGraph graph;   // inputs and outputs in canonical order
  std::string config;  // "" or a name of config_names()
  std::uint64_t seed = 1;
};

struct GraphProgress {
  TunePhase phase = TunePhase::kSearch;
  std::int64_t explored = 0, pruned = 0, proved = 0;
  std::int64_t kernels = 0, compiled = 0, programs = 0, verified = 0, timed = 0;
  double best_us = 0;  // 0: none yet
  double seconds = 0;  // since the miss
};
using GraphProgressFn = std::function<void(const GraphProgress&)>;

// What became of one program. Beside tuner.h's outcomes: "not proved".
struct ProgramAttempt : Fate {
  std::string program;  // describe()
  std::string threads;  // thread_text()
  bool safe = true;
  std::vector<std::string> rules;
};

struct TunedGraph {
  KernelGraph program;  // with thread plans
  std::unique_ptr<LoadedProgram> loaded;
  cache::WinnerRow winner;  // but for its key, which is its caller's
  PhaseTimes times;
  std::vector<ProgramAttempt> attempts;
};

// Compiled kernels are put in the store as they are made; the winner is not. kNoCandidate names every reason with its
// count when nothing is left.
Status tune_graph(Device& device, cache::Store& store, const GraphQuestion& question, const TunePolicy& policy,
                  const GraphProgressFn& progress, TunedGraph* tuned);

// What cache::WinnerRow::evidence holds for a graph: fates.h's JSON, and "search", the report.
std::string graph_evidence_json(const SearchReport& report, const std::vector<ProgramAttempt>& attempts,
                                const PhaseTimes& times, double clock_mhz, double clock_after_mhz);

}  // namespace gqa

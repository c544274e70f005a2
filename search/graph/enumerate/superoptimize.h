// superoptimize.h: from a user's graph to ranked programs that compute the same: the whole search in one call.
// Owns: the order of things: rewrite, enumerate, prove; what is returned.
// Never: compiles or times; the order is a prediction, for whoever measures the first few.
// Threads: pure functions; `progress` is called on the caller's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/graph/enumerate/enumerate.h"
#include "search/graph/prove/equivalence.h"

namespace gqa {

enum class SearchStep : std::uint8_t { kRewritten, kEnumerated, kProved };

struct SearchOptions {
  std::string config;              // "" or a name of config_names()
  std::uint64_t seed = 1;          // of the proofs; equal seeds, equal results
  std::size_t most_programs = 24;  // returned
  // Called after each step; with the times the caller may fill in.
  std::function<void(SearchStep, SearchReport*)> progress = {};
  // Asked again and again on the way to each step. Once true that step ends within some milliseconds with what it has,
  // and report.exhausted is false: the best programs found so far, and of them those proved so far.
  std::function<bool(SearchStep)> stop = {};
};

struct RankedProgram {
  FoundProgram program;
  EquivalenceReport proof;
};

struct SearchResult {
  std::vector<RankedProgram> programs;  // predicted best first; the user's graph as it stands is always among them
  SearchReport report;
};

// Each program is proved equal to the graph before it is returned. Errors: an unknown config; kNoCandidate where
// nothing fits the device, with what was tried and why it was dropped; *result has the report then too.
Status superoptimize(const KernelGraph& graph, const DeviceSpec& device, const SearchOptions& options,
                     SearchResult* result);

// One line: "2 kernels, grid 8x2x16, 4 steps, running maximum; then grid 8x2": what a program is.
std::string describe(const KernelGraph& program);

// The thread plans of its kernels, "; " between; the operator's name for a kernel without one.
std::string thread_text(const KernelGraph& program);

}  // namespace gqa

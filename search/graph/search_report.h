// search_report.h: what a search looked at, what it dropped and why: the evidence kept beside its results.
// Owns: Reason, one line each; StageCount and SearchReport, plain numbers.
// Never: reads a clock; whoever calls the search fills in the times.
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gqa {

// X(id, text): why something was dropped.
#define GQA_REASONS(X)                                                    \
  X(kDuplicate, "met before")                                             \
  X(kAbstract, "no part of the goal, by its abstract expression")         \
  X(kWholeInLoop, "needs in the loop what is whole only after it")        \
  X(kMaximum, "the result would depend on a running maximum")             \
  X(kSharedPartial, "several blocks would write the same partial result") \
  X(kMalformed, "no well-formed block graph")                             \
  X(kSharedMemory, "more shared memory than a block has")                 \
  X(kRegisters, "more registers than a block has")                        \
  X(kSlower, "predicted slower than another of its kind")                 \
  X(kCycle, "kernels would wait for each other")                          \
  X(kRounded, "would round to 16 bits what the graph does not")           \
  X(kOverflow, "may overflow where the graph does not")                   \
  X(kUnproved, "not proved equal")

enum class Reason : std::uint8_t {
#define GQA_REASON(id, text) id,
  GQA_REASONS(GQA_REASON)
#undef GQA_REASON
};
inline constexpr std::string_view kReasons[] = {
#define GQA_REASON(id, text) text,
    GQA_REASONS(GQA_REASON)
#undef GQA_REASON
};

// explored = kept + everything pruned.
struct StageCount {
  std::int64_t explored = 0, kept = 0;
  std::array<std::int64_t, std::size(kReasons)> pruned = {};

  void keep() { ++explored, ++kept; }
  void prune(Reason reason) { ++explored, ++pruned[static_cast<std::size_t>(reason)]; }
  // One that was kept turns out to be dropped after all.
  void drop(Reason reason) { --kept, ++pruned[static_cast<std::size_t>(reason)]; }
  std::int64_t pruned_for(Reason reason) const { return pruned[static_cast<std::size_t>(reason)]; }
};

// X(field, text): the stages of a search, in their order.
#define GQA_SEARCH_STAGES(X)                             \
  X(rewrites, "rewritten graphs")                        \
  X(loop_placements, "ways to carry values over a loop") \
  X(kernels, "block graphs")                             \
  X(programs, "programs")

struct SearchReport {
#define GQA_STAGE(field, text) StageCount field;
  GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
  std::map<std::string, std::int64_t> rules;     // how often each rewriting rule gave a graph not met before
  std::int64_t sections = 0;                     // different parts of graphs tried as one kernel
  std::int64_t proved = 0, ranked = 0;           // programs
  bool exhausted = true;                         // false: a bound on graphs stopped it, or its caller
  double search_seconds = 0, proof_seconds = 0;  // filled in by the caller
};

// Some lines for people: each stage, explored, kept, and each reason with its count.
std::string to_text(const SearchReport& report);

}  // namespace gqa

// launch_plan.h: what every family says of its candidates in the same words, as plain data.
// Owns: CandidateShape, how a candidate cuts a problem, with the counts that follow from it; LaunchPlan, its recipe.
// Never: knows a family.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "search/problem/kind_set.h"
#include "search/problem/problem.h"

namespace gqa {

struct CandidateShape {
  std::int32_t rows = 64;         // query rows a CTA owns (packed heads count)
  std::int32_t keys = 64;         // keys a step
  std::int32_t cta_keys = 64;     // keys that all of a CTA's warps take in a step, where each has keys of its own
  std::int32_t pack = 1;          // query heads of a group in a tile's rows
  std::int32_t splits = 1;        // CTAs that share one row tile's keys
  std::int32_t cluster = 1;       // CTAs on neighbouring rows that run together
  std::int32_t head_swizzle = 0;  // head groups walked together, longest query tile first; 0: all of them
};

// Query-row tiles of one head group: ceil(q_len * pack / rows); of clusters, their tiles together are one.
std::int64_t row_tiles(const Problem& problem, const CandidateShape& shape);

// Head groups of all batch entries: what row tiles are made for.
std::int64_t head_groups(const Problem& problem, const CandidateShape& shape);

// Head groups that are walked together: the largest number, at most as many as the candidate wants, that divides all of
// them.
std::int64_t head_swizzle(const Problem& problem, const CandidateShape& shape);

// Boxes of the tensor maps that a kernel with TMA takes.
struct TensorBoxes {
  std::int32_t query_rows = 0;
  std::int32_t keys = 0;  // 0: k and v have no maps
  std::int32_t out_rows = 0;
  std::int32_t pack = 1;  // heads in a box of query rows or of out
};

// What a launch brings beside jit/device/attention/common/params.h, in the order in which a kernel takes it; each only
// where the plan has it. jit/codegen.cc writes them so, runtime/cuda/launch/launch_arguments.h hands them over so.
enum class LaunchArgument : std::uint8_t {
  kMaps,    // tensor maps, in TensorBoxes
  kCache,   // more of the keys: cache_params.h
  kTokens,  // new tokens for the cache: jit/device/append/new_tokens.h
  kScores,  // numbers for the scores: score_params.h
};
inline constexpr LaunchArgument kLaunchArguments[] = {LaunchArgument::kMaps, LaunchArgument::kCache,
                                                      LaunchArgument::kTokens, LaunchArgument::kScores};

struct LaunchPlan {
  std::int64_t blocks = 0;          // CTAs, a 1-D grid; persistent: tiles, a cluster's as one
  bool persistent = false;          // CTAs walk tiles: no more are launched than run at once
  bool listed_tiles = false;        // tiles are numbered sequence by sequence, as many as each has; else all alike
  int threads = 0;                  // threads a CTA
  int resident = 1;                 // CTAs an SM is asked to hold at once; more may fit
  int cluster = 1;                  // CTAs a cluster
  std::int64_t shared_memory = 0;   // dynamic, bytes
  std::int64_t clusters = 0;        // persistent: that many run, if there is room; 0: no more than there are tiles
  std::int64_t partial_floats = 0;  // workspace for partials, float32 elements
  std::int64_t counters = 0;        // workspace counters, uint32; zero before the first launch and left zero
  std::int32_t rows_before = 0;     // of the first tile that do not exist, where it is that one that is not full
  TensorBoxes maps;
  KindSet<LaunchArgument> arguments = {};

  bool brings(LaunchArgument argument) const { return arguments.has(argument); }
  void bring(LaunchArgument argument, bool needed) {
    if (needed) arguments = arguments.with(argument);
  }
  bool needs_workspace() const { return partial_floats > 0 || counters > 0; }
};

}  // namespace gqa

// lower.h: a section, a way over its loop and tile sizes, as block graphs.
// Owns: Cuts, and lower(): one kernel, or two where the loop's dimension is divided among blocks: each keeps the
// partial results of its share, the second kernel merges them and does what comes after the loop.
// Never: chooses cuts or judges the result.
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "search/graph/enumerate/loop_placement.h"
#include "search/graph/search_report.h"

namespace gqa {

struct Cuts {
  std::vector<std::int64_t> tiles;  // a block's elements of each dimension; 0: all of them
  std::int64_t loop_tile = 0;       // a step's elements of the loop's dimension
  std::int64_t splits = 1;          // blocks that share the loop's dimension
};

// The section's graph as custom operators. Nothing, and why, where no block graph says it.
std::optional<KernelGraph> lower(const Section& section, const LoopPlacement& placement, const Cuts& cuts,
                                 Reason* reason);

}  // namespace gqa

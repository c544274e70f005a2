// loop_placement.h: how the values of a section meet the loop of its kernel.
// Owns: LoopPlacement: for each node, whether it is computed before the loop, in it or after it, and what carries its
// value over the steps; find_loop_placements(), all of them for a loop along one dimension that may be equal to the
// goal.
// Never: chooses a tile; the same placement serves all.
// Threads: pure but for the space and the report.
//
// A sum or maximum over the loop's dimension of what is elementwise of inputs may be taken before the loop, for the
// loop to read: the inputs are read whole there, and once more, cut, in the loop. So rows are divided by their norm
// before they are multiplied, as operator by operator.
//
// Any other node that sums over the loop's dimension gives a part of its sum in each step. It may be added up at once,
// or the part goes on to the next operator and what comes of it is added up; abstract expressions tell where that
// cannot be right. A maximum over the loop's dimension may be the running one; what has been summed under an earlier
// maximum is rescaled then.
#pragma once

#include <vector>

#include "search/graph/enumerate/section.h"
#include "search/graph/rewrite/abstract.h"
#include "search/graph/search_report.h"

namespace gqa {

enum class Carry : std::uint8_t { kNone, kSum, kMaximum, kRunningMaximum, kRescaledSum };

struct Placement {
  Phase phase = Phase::kBefore;
  Carry carry = Carry::kNone;
  int maximum = -1;  // of a rescaled sum: the node whose running maximum it goes by
};

struct LoopPlacement {
  int loop = kNoDimension;  // the dimension it walks along; none: there is no loop
  std::vector<Placement> nodes;
  bool multiplies_parts = false;  // a product in the loop reads a part of a sum that is float16 as a whole
};

// inputs: abstract expressions of the section's inputs.
std::vector<LoopPlacement> find_loop_placements(const Section& section, int loop,
                                                const std::vector<AbstractSpace::Id>& inputs, AbstractSpace* abstract,
                                                SearchReport* report);

}  // namespace gqa

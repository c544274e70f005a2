// shrink.h: two graphs made small enough to try, in the same way.
// Owns: the choice of small sizes, and both graphs rewritten to them: a dimension of 4096 looped over 64 at a time
// becomes one of a few elements in a few steps, the same in both graphs and wherever 4096 stands.
// Never: changes an operator or an edge.
// Threads: pure functions.
#pragma once

#include <array>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

struct ShrunkPair {
  KernelGraph a, b;
  std::string sizes;  // "2->2 64->3 256->4 4096->12": for people
};

// Sizes stay in order and apart: equal ones stay equal, a larger one larger. A dimension that a grid cuts keeps at
// least two blocks, a loop at least two steps, a tile of more than one element at least two, a short last tile a short
// last tile, a part that no step reaches a part that none reaches; windows of masks stay apart and shorter than what
// they mask. So what no operator can tell from the original (none looks at a size, but mean and scale's count, which
// follow) is kept. `variant` 0 and 1 give different sizes. Fails where a graph has no such small twin.
Status shrink(const KernelGraph& a, const KernelGraph& b, int variant, ShrunkPair* pair);

}  // namespace gqa

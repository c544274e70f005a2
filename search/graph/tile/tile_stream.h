// tile_stream.h: a tile kernel's loop with nothing between global memory and mma.sync: each warp takes pieces of the
// loop's dimension in turn and loads its operands into the registers that multiply them. No shared memory and no
// barrier, so that products of few rows, which only wait for memory, never stop asking for more.
// Owns: plan_stream(), whether a block's loop can run so and how its accumulators are dealt out to groups of warps;
// stream_balance(), how evenly thread blocks fill the SMs.
// Never: knows the passes before and after the loop; tile_plan.h does.
// Threads: pure functions.
//
// What can be streamed: sums of products whose right operand is a load, as it lies or transposed, and whose left one is
// elementwise of loads; sums along the rows of such. In 16 bits, in steps of kStreamDepth, none of them short: the
// pieces.
#pragma once

#include <vector>

#include "search/graph/tile/tile_plan.h"

namespace gqa {

// Warps that an SM has: as many as leave each the registers it needs.
inline constexpr int kStreamWarps = 16;

// Fills in the groups. Error: what cannot be streamed.
Status plan_stream(const KernelGraph& graph, const KernelNode& node, const BlockGraph& block, int warps,
                   TileStream* stream);

// The products that an accumulator adds up; none: it sums along rows.
std::vector<int> streamed_products(const BlockGraph& block, int accumulator);

// What an accumulator of row sums folds, and what the sums are multiplied by.
struct StreamedFold {
  int folded = -1;
  double factor = 1;
};
StreamedFold streamed_fold(const BlockGraph& block, int accumulator);

// The loads that the loop reads for a value, each once.
std::vector<int> streamed_loads(const BlockGraph& block, int node);

// The loads of the rows that a group of warps reads: of left operands and of sums along rows, each once.
std::vector<int> streamed_rows(const BlockGraph& block, const std::vector<StreamedSum>& group);

// Columns that a lane holds of a product's right operand, or of what a warp has of it: an eighth.
std::int64_t streamed_width(const BlockNode& product);

// The share of its time that an SM works where so many thread blocks of equal length are dealt out, `together` at
// a time each.
double stream_balance(std::int64_t blocks, std::int64_t sms, int together);

// How many thread blocks might share each of a plan's loops, the best first; each warp has some pieces still.
std::vector<int> stream_splits(const TilePlan& plan, std::int64_t sms, int together);

// About how long a loop that can be streamed takes.
struct StreamCost {
  double slowdown = 0;  // against a memory that is never kept waiting; 0: it cannot be streamed
  double rounds = 0;    // of thread blocks, one after another
};
StreamCost stream_cost(const KernelGraph& graph, const KernelNode& node, std::int64_t sms);

}  // namespace gqa

// tile_values.h: where each value of a block lives: shared memory, registers, or nowhere.
// Owns: place_values(): what is computed where it is read, what an accumulator takes in, which products run on tensor
// cores and how the warps share them, which buffers there are.
// Never: orders passes or places buffers; tile_passes.h does.
// Threads: pure functions.
#pragma once

#include "search/graph/tile/tile_plan.h"

namespace gqa {

// Fills in plan->values, buffers (without lifetimes), early and ring from plan->block, warps, stages and loops.
void place_values(const KernelGraph& graph, const KernelNode& node, TilePlan* plan);

}  // namespace gqa

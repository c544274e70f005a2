// tile_passes.h: the passes of a tile kernel in order, and the shared memory between them.
// Owns: read_buffers(), add_passes(), place_buffers(): which pass reads and writes what, the barriers that this asks
// for, and where each buffer lies, two in one place where they do not live together.
// Never: decides where a value lives; tile_plan.cc has.
// Threads: pure functions.
#pragma once

#include <vector>

#include "search/graph/tile/tile_plan.h"

namespace gqa {

inline bool is_accumulator(Op op) { return info(op).kind == OpClass::kAccumulator; }

// The phase a node runs in: what the loop would do over and over again stands before it.
Phase tile_phase(const TilePlan& plan, const BlockNode& node);

// Buffers that computing `node` where it is read would read.
void read_buffers(const TilePlan& plan, int node, std::vector<int>* buffers);

// Fills in plan->passes, and buffers' lifetimes and offsets, barriers and waits, plan->shared_memory.
void add_passes(TilePlan* plan);

}  // namespace gqa

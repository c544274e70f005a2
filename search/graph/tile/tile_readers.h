// tile_readers.h: who reads a block's values, and of which type they would be in memory.
// Owns: tile_readers(), tile_types().
// Never: places a value; tile_values.h does.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "search/graph/tile/tile_plan.h"

namespace gqa {

struct TileReader {
  int node;  // -1: a store
  std::size_t operand;
  Phase phase;
};

using TileReaders = std::vector<std::vector<TileReader>>;  // of each node

TileReaders tile_readers(const TilePlan& plan);

// The type that two have in common: float32 where they differ.
inline ElementType common(ElementType a, ElementType b) { return a == b ? a : ElementType::kF32; }

// The type of each node: 16-bit types stay what they are through operators, as a user's graph has it.
std::vector<ElementType> tile_types(const KernelGraph& graph, const KernelNode& kernel, const BlockGraph& block);

}  // namespace gqa

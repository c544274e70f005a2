// tile_kernel.cuh: what a generated tile kernel is made of (jit/block/tile_codegen.h writes it).
// Owns: the includes, and Extent, the part of a dimension that a block sees in a step.
// Never: decides anything.
// Threads: see each piece.
#pragma once

#include "block/tile_copy.cuh"
#include "block/tile_fold.cuh"
#include "block/tile_lanes.cuh"
#include "block/tile_merge.cuh"
#include "block/tile_product.cuh"
#include "block/tile_stream.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

struct Extent {
  int begin, size;
};

// search/graph/ir/axis.h: a block's share of a dimension, and of it a step's tile.
__device__ inline Extent extent(long long full, long long share, long long tile, long long position, long long step) {
  const long long first = position * share < full ? position * share : full;
  const long long end = first + share < full ? first + share : full;
  const long long begin = first + step * tile < end ? first + step * tile : end;
  const long long past = begin + tile < end ? begin + tile : end;
  return {static_cast<int>(begin), static_cast<int>(past - begin)};
}

}  // namespace gqa

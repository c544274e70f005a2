// tile_product.h: how a block's warps share a product on tensor cores.
// Owns: a matmul's sizes as the warps see them, share_out().
// Never: decides which products run there or where their results live; tile_values.h does.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "search/graph/tile/tile_plan.h"

namespace gqa {

inline constexpr std::int64_t kProductDepth = 16;  // what a tensor core takes of the inner dimension at once

// A matmul's sizes, a batch that shares its second operand standing in the rows.
struct ProductSizes {
  ProductSizes(const BlockGraph& block, const BlockNode& node);
  std::int64_t batches, rows, columns, inner;
};

// Shares out the sum of some matmuls of the plan's block, done in so many steps. Warps divide columns first, then rows,
// then the inner dimension: whatever leaves the slowest warp the least, in instructions, the writing and reading of
// parts included.
TileProduct share_out(const TilePlan& plan, const std::vector<int>& terms, std::int64_t steps);

}  // namespace gqa

// warpgroup_hints.cuh: what the assembler is told of a warp's lanes: that they hold the same value, or go one way; and
// how it is to reckon addresses. Owns: where. It keeps addresses in uniform registers then, and orders a loop's
// instructions otherwise: 15 % of a kernel that sums, up to 3 % of others, and where it is not told as much
// (docs/performance.md). Never: changes a value. Threads: all lanes of a warp call together.
#pragma once

#include "attention/common/walk.cuh"
#include "attention/wgmma_flash/warpgroup_features.cuh"

namespace gqa {

// Whether the assembler is told of a tile's place and its blocks. Wider steps at 256 would spill.
template <typename Config>
constexpr bool kTellTile = Config::kPack > 1 || (Config::kHeadDimV >= 256 && Config::kTileN <= 64);

// Whether a buffer's operands are reckoned from the first one's. Else each is made of its address, which is more
// instructions where products sum or two warpgroups share rows, and fewer in other loops.
template <typename Config>
constexpr bool kMovesOperands = ones_column<Config>() || key_shares<Config>() > 1;

template <typename Config>
__device__ inline int told_same(int value) {
  if constexpr (kTellTile<Config>) return __shfl_sync(0xffffffffu, value, 0);
  return value;
}

// What a barrier answered, told to be the same in all lanes.
template <typename Config>
__device__ inline bool told_agreed(bool answer) {
  if constexpr (ones_column<Config>() || (Walk<Config>::kRowsDiffer && !kTellTile<Config>))
    return __all_sync(0xffffffffu, answer);
  return answer;
}

}  // namespace gqa

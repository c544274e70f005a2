// rows.cuh: which query position and head a tile's row is, and which keys it may see.
// Owns: the packing of a group's heads into rows (row r is position r / pack, head r % pack), the causal limit, and the
// order in which the grid takes tiles.
// Never: touches memory.
// Threads: values.
#pragma once

#include "attention/common/features.cuh"
#include "attention/common/params.h"
#include "ptx/element.cuh"
#include "ptx/index.cuh"

namespace gqa {

// Where a CTA works: one row tile of one group of packed heads.
struct Place {
  int batch, head, kv_head;  // head: the first of the packed ones
  int first_row;             // of the tile, in packed rows (warpgroup: also below 0, where none exist)
};

// `other`: which head group of which batch.
template <typename Config>
__device__ inline Place place_of(const AttentionParams& p, int tile, int other) {
  Place place;
  place.batch = quotient(other, p.by_head_groups);
  place.head = (other - place.batch * p.head_groups) * Config::kPack;
  place.kv_head = quotient(place.head, p.by_group);
  place.first_row = tile * Config::kTileM * cluster_size<Config>();
  return place;
}

// Longest tiles first (causal). The swizzle of heads: so many head groups are walked together, and their keys stay in
// L2 while every row tile of theirs passes.
template <typename Config>
__device__ inline Place tile_place(const AttentionParams& p, int number) {
  const int swizzle = quotient(number, p.by_swizzle_tiles);
  const int inside = number - swizzle * p.head_swizzle * p.row_tiles;
  const int round = quotient(inside, p.by_swizzle);
  return place_of<Config>(p, p.row_tiles - 1 - round, swizzle * p.head_swizzle + inside - round * p.head_swizzle);
}

// Keys that packed row `row` may see: those below the limit. Causal masks are aligned bottom-right.
template <typename Config>
__device__ inline int key_limit(const AttentionParams& p, int row) {
  if constexpr (!Config::kCausal) return p.kv_len;
  const int position = row / Config::kPack;
  return max(0, min(p.kv_len, position + p.kv_len - p.q_len + 1));
}

// Keys that packed rows before `end` see: the last that exists sees most.
template <typename Config>
__device__ inline int keys_seen(const AttentionParams& p, int end) {
  return key_limit<Config>(p, min(end, p.q_len * Config::kPack) - 1);
}

template <typename Config>
__device__ inline bool row_exists(const AttentionParams& p, int row) {
  return row / Config::kPack < p.q_len;
}

// Element offset of a place's first head in a tensor, and of a packed row from there.
__device__ inline long long place_offset(const TensorStrides& s, int batch, int head) {
  return batch * s.batch + head * s.head;
}

template <typename Config>
__device__ inline long long row_offset(const TensorStrides& s, int row) {
  const long long offset = row / Config::kPack * s.row;
  return Config::kPack == 1 ? offset : offset + row % Config::kPack * s.head;
}

// A score becomes -inf where its key, `column` past this lane's first, is at or past the limit.
__device__ inline void mask_score(float& score, int column, int limit) {
  if (column + static_cast<int>(threadIdx.x) % 4 * 2 >= limit) score = negative_infinity();
}

// Masks one fragment row of scores: keys first_key .. at or past the limit become -inf. `half` 0: row g, 1: row g + 8.
template <int kFragments>
__device__ inline void mask_row(float (&scores)[kFragments][4], int half, int first_key, int limit) {
  const int lane_key = first_key + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_key + n * 8 + c >= limit) scores[n][2 * half + c] = negative_infinity();
    }
  }
}

}  // namespace gqa

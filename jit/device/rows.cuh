// rows.cuh: which query position and head a tile's row is, and which keys it may see.
// Owns: the packing of a group's heads into rows (row r is position r / pack, head r % pack), the causal limit, and the
// order in which the grid takes tiles.
// Never: touches memory.
// Threads: values.
#pragma once

#include "element.cuh"
#include "index.cuh"
#include "params.h"

namespace gqa {

// Where a CTA works: one row tile of one group of packed heads.
struct Place {
  int batch, head, kv_head;  // head: the first of the packed ones
  int first_row;             // of the tile, in packed rows
};

template <typename Config>
__device__ inline Place place_of(const AttentionParams& p, int tile, int heads_and_batch) {
  Place place;
  const int head_group = heads_and_batch % p.head_groups;
  place.batch = heads_and_batch / p.head_groups;
  place.head = head_group * Config::kPack;
  place.kv_head = place.head / (p.q_heads / p.kv_heads);
  place.first_row = tile * Config::kTileM;
  return place;
}

// Longest tiles first (causal). Heads are walked in sections of p.order head groups (0: all), whose keys stay in L2
// while every row tile of the section passes.
template <typename Config>
__device__ inline Place tile_place(const AttentionParams& p, int number) {
  const int others = p.head_groups * p.batch;
  int first = 0, width = others;
  if (p.order != 0) {
    const int section = number / (p.order * p.row_tiles);
    number -= section * p.order * p.row_tiles;
    first = section * p.order;
    width = min(p.order, others - first);
  }
  return place_of<Config>(p, p.row_tiles - 1 - number / width, first + number % width);
}

// Keys that packed row `row` may see: those below the limit. Causal masks are aligned bottom-right.
template <typename Config>
__device__ inline int key_limit(const AttentionParams& p, int row) {
  if constexpr (!Config::kCausal) return p.kv_len;
  const int position = row / Config::kPack;
  return max(0, min(p.kv_len, position + p.kv_len - p.q_len + 1));
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

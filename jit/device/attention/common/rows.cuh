// rows.cuh: which query position and head a tile's row is.
// Owns: the packing of a group's heads into rows (row r is position r / pack, head r % pack), and the order in which
// the grid takes tiles. Never: touches memory. Threads: values.
#pragma once

#include "attention/common/features.cuh"
#include "attention/common/walk.cuh"
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

// own_queries: of the sequence, where queries are packed. Else q_len is read here, after the division: in the other
// order the assembler makes other code where heads are packed into rows.
template <typename Config>
__device__ inline bool row_exists(const AttentionParams& p, int own_queries, int row) {
  if constexpr (queries_packed<Config>())
    return row / Config::kPack < own_queries;
  else
    return row / Config::kPack < p.q_len;
}
template <typename Config>
__device__ inline bool row_exists(const AttentionParams& p, int row) {
  static_assert(!queries_packed<Config>(), "each sequence has its own number of queries");
  return row_exists<Config>(p, 0, row);
}

// Element offset of a place's first head in a tensor, and of a packed row from there.
__device__ inline long long place_offset(const TensorStrides& s, int batch, int head) {
  return batch * s.batch + head * s.head;
}

// The same, where `before` rows are other sequences'.
template <typename Config>
__device__ inline long long place_offset(const TensorStrides& s, const Place& place, long long before) {
  const long long offset = place_offset(s, place.batch, place.head);
  if constexpr (queries_packed<Config>()) return offset + before * s.row;
  return offset;
}

template <typename Config>
__device__ inline long long row_offset(const TensorStrides& s, int row) {
  const long long offset = row / Config::kPack * s.row;
  return Config::kPack == 1 ? offset : offset + row % Config::kPack * s.head;
}

}  // namespace gqa

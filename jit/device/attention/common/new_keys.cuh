// new_keys.cuh: a call's new tokens in attention's own launch: before a CTA reads a block of keys that holds new ones,
// it writes those into the cache, rotated or not; queries are rotated on their way to shared memory.
// Owns: which keys of a part are new, who writes them, and the rotation of a tile's queries.
// Never: meets rows that are not whole vectors of 16 bytes: the launch says whether it brings any
// (runtime/append_plan.h). Threads: all of a CTA together. CTAs that read the same new keys write the same bytes: each
// reads what it wrote.
#pragma once

#include "append/head_rows.cuh"
#include "attention/common/rows.cuh"

namespace gqa {

template <typename Config>
struct NewKeys {
  using Element = typename Config::Q;

  const AttentionParams& p;
  const NewTokens& tokens;
  Place place;
  int cached;      // keys of the sequence that were there before
  int begin, end;  // the part's new keys

  // Of a part that holds blocks first_block .. first_block + blocks of a sequence of so many keys in all.
  __device__ NewKeys(const AttentionParams& params, const CacheParams* cache, const NewTokens& brought, const Place& at,
                     int keys, int first_block, int blocks)
      : p(params), tokens(brought), place(at), cached(cached_keys<Config>(p, cache, at.batch)) {
    begin = max(cached, first_block * Config::kTileN);
    end = min(keys, (first_block + blocks) * Config::kTileN);
  }

  __device__ bool any() const { return begin < end; }
  // Whether a block of the part that begins there holds a new key.
  __device__ bool in_block(int first_key) const { return any() && first_key + Config::kTileN > cached; }

  __device__ void rotate(const HeadRows& rows, int position, int lane) const {
    const Rotation rotation(tokens, position);
    if (tokens.interleaved)
      rotate_heads<Element, true, kVector>(rotation, rows, lane);
    else
      rotate_heads<Element, false, kVector>(rotation, rows, lane);
  }

  template <typename Bits>
  __device__ HeadRows rows_of(const void* given, const TensorStrides& s, const Bits* slot, int key) const {
    const long long from = place.batch * s.batch + (key - cached) * s.row + place.kv_head * s.head;
    return {static_cast<const u16*>(given) + from, const_cast<u16*>(slot), 0, 0, 1};
  }

  // A warp takes a key or its value.
  template <typename Keys>
  __device__ void write(const Keys& keys, int warp, int lane) const {
    const int start = rotary_start(tokens, place.batch, cached);
#pragma unroll 1
    for (int item = warp; item < 2 * (end - begin); item += Config::kWarps) {
      const int key = begin + item / 2;
      if (item % 2 == 0) {
        const HeadRows rows = rows_of(tokens.k, tokens.k_strides, keys.k_row(key), key);
        if (tokens.rotary_dim > 0) rotate(rows, start + key - cached, lane);
        copy_heads<kVector>(rows, tokens.rotary_dim, Config::kHeadDim, lane);
      } else {
        copy_heads<kVector>(rows_of(tokens.v, tokens.v_strides, keys.v_row(key), key), 0, Config::kHeadDimV, lane);
      }
    }
  }
};

// One vector of a query's row, or two that hold kVector pairs, on its way to shared memory.
template <typename Config, bool kInterleaved>
__device__ inline void rotate_vector(const NewTokens& tokens, const u16* from, u16* to, int position, int vector) {
  const Rotation rotation(tokens, position);
  const int first = vector * kVector, one = kInterleaved ? 2 * first : first;
  rotate_pairs<typename Config::Q, kInterleaved, kVector>(Angles<kVector>(rotation, first), from, to, one,
                                                          kInterleaved ? one + kVector : first + rotation.pairs);
}

// All queries of a tile, rotated; q: the place's first. A row that does not exist gets what the tile's first has.
template <typename Config, int kThreads>
__device__ inline void rotate_queries(const AttentionParams& p, const CacheParams* cache, const NewTokens& tokens,
                                      const Place& place, const u16* q, u16* tile) {
  constexpr int kPitch = row_pitch<u16>(Config::kHeadDim) / 2;
  const int start = rotary_start(tokens, place.batch, cached_keys<Config>(p, cache, place.batch));
  const int rotated = tokens.rotary_dim / (2 * kVector), items = (Config::kHeadDim / kVector) - rotated;
#pragma unroll 1
  for (int i = threadIdx.x; i < Config::kTileM * items; i += kThreads) {
    const int r = i / items, vector = i - r * items;
    const int row = row_exists<Config>(p, 0, place.first_row + r) ? place.first_row + r : place.first_row;
    const u16* from = q + row_offset<Config>(p.q_strides, row);
    u16* to = tile + r * kPitch;
    const int position = start + (tokens.advances ? row / Config::kPack : 0);
    if (vector >= rotated) {
      u16 elements[kVector];
      load_elements<kVector>(from + (vector + rotated) * kVector, elements);
      store_elements<kVector>(elements, to + (vector + rotated) * kVector);
    } else if (tokens.interleaved) {
      rotate_vector<Config, true>(tokens, from, to, position, vector);
    } else {
      rotate_vector<Config, false>(tokens, from, to, position, vector);
    }
  }
}

}  // namespace gqa

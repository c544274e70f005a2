// new_keys.cuh: a call's new tokens in attention's own launch: before a CTA reads a block of keys that holds new ones,
// it writes those into the cache, rotated or not; queries are rotated on their way to shared memory.
// Owns: which keys of a part are new, who writes them, and the rotation of a tile's queries.
// Never: meets rows that are not whole vectors of 16 bytes: the launch says whether it brings any
// (runtime/call/append_plan.h).
// Threads: all of a CTA together. CTAs that read the same new keys write the same bytes: each reads what it wrote.
#pragma once

#include "append/head_rows.cuh"
#include "attention/common/rows.cuh"

namespace gqa {

// A row of q or of new keys on its way, a vector of 16 bytes a step; where it is rotated, two that hold kWidth pairs.
template <typename Config>
struct RotatedRow {
  using Bits = QBits<Config>;
  static constexpr int kWidth = kVector<Bits>;

  const NewTokens& tokens;

  // Steps of pairs come first, then those of the columns after them.
  __device__ int pair_steps() const { return tokens.rotary_dim / (2 * kWidth); }
  __device__ int steps() const { return Config::kHeadDim / kWidth - pair_steps(); }

  template <bool kInterleaved>
  __device__ void rotate(const Bits* from, Bits* to, int position, int step) const {
    const Rotation<Bits> rotation(tokens, position);
    const int first = step * kWidth, one = kInterleaved ? 2 * first : first;
    rotate_pairs<typename Config::Q, kInterleaved, kWidth>(Angles<kWidth, Bits>(rotation, first), from, to, one,
                                                           kInterleaved ? one + kWidth : first + rotation.pairs);
  }

  __device__ void move(const Bits* from, Bits* to, int position, int step) const {
    if (step >= pair_steps())
      copy_vector(from, to, step + pair_steps());
    else if (tokens.interleaved)
      rotate<true>(from, to, position, step);
    else
      rotate<false>(from, to, position, step);
  }

  static __device__ void copy_vector(const Bits* from, Bits* to, int vector) {
    Bits elements[kWidth];
    load_elements<kWidth>(from + vector * kWidth, elements);
    store_elements<kWidth>(elements, to + vector * kWidth);
  }
};

template <typename Config>
struct NewKeys {
  using Bits = KvBits<Config>;
  static constexpr int kThreads = Config::kWarps * 32;

  const AttentionParams& p;
  const NewTokens& tokens;
  Place place;
  int cached;      // keys of the sequence that were there before
  int begin, end;  // the part's new keys

  // The part holds blocks first_block .. first_block + blocks of a sequence of so many keys in all.
  __device__ NewKeys(const AttentionParams& params, const CacheParams* cache, const NewTokens& brought, const Place& at,
                     int keys, int first_block, int blocks)
      : p(params), tokens(brought), place(at), cached(cached_keys<Config>(p, cache, at.batch)) {
    begin = max(cached, first_block * Config::kTileN);
    end = min(keys, (first_block + blocks) * Config::kTileN);
  }

  __device__ bool any() const { return begin < end; }
  // Whether a block of the part that begins there holds a new key.
  __device__ bool in_block(int first_key) const { return any() && first_key + Config::kTileN > cached; }

  __device__ const Bits* given(const void* tensor, const TensorStrides& s, int key) const {
    return static_cast<const Bits*>(tensor) + place.batch * s.batch + (key - cached) * s.row + place.kv_head * s.head;
  }

  // Keys and values are other warps', so that neither waits for the other.
  template <typename Keys>
  __device__ void write(const Keys& keys) const {
    constexpr int kValueSteps = Config::kHeadDimV / kVector<Bits>;
    const RotatedRow<Config> row = {tokens};
    const int start = rotary_start(tokens, place.batch, cached), steps = row.steps();
    const int key_items = (end - begin) * steps, first_value = (key_items + 31) / 32 * 32;
#pragma unroll 1
    for (int i = threadIdx.x; i < first_value + (end - begin) * kValueSteps; i += kThreads) {
      if (i >= first_value) {
        const int value = i - first_value, key = begin + value / kValueSteps;
        row.copy_vector(given(tokens.v, tokens.v_strides, key), const_cast<Bits*>(keys.v_row(key)),
                        value % kValueSteps);
      } else if (i < key_items) {
        const int key = begin + i / steps;
        row.move(given(tokens.k, tokens.k_strides, key), const_cast<Bits*>(keys.k_row(key)), start + key - cached,
                 i % steps);
      }
    }
  }
};

// All queries of a tile, rotated; q: the place's first. A row that does not exist gets what the tile's first has.
template <typename Config, int kThreads>
__device__ inline void rotate_queries(const AttentionParams& p, const CacheParams* cache, const NewTokens& tokens,
                                      const Place& place, const QBits<Config>* q, QBits<Config>* tile) {
  constexpr int kPitch = row_pitch<QBits<Config>>(Config::kHeadDim) / static_cast<int>(sizeof(QBits<Config>));
  const RotatedRow<Config> query = {tokens};
  const int start = rotary_start(tokens, place.batch, cached_keys<Config>(p, cache, place.batch));
  const int steps = query.steps();
#pragma unroll 1
  for (int i = threadIdx.x; i < Config::kTileM * steps; i += kThreads) {
    const int r = i / steps;
    const int row = row_exists<Config>(p, 0, place.first_row + r) ? place.first_row + r : place.first_row;
    query.move(q + row_offset<Config>(p.q_strides, row), tile + r * kPitch,
               start + (tokens.advances ? row / Config::kPack : 0), i % steps);
  }
}

}  // namespace gqa

// keys.cuh: a step's keys in shared memory, as they lie in global memory: a row a key, or, transposed, a row an element
// of head_dim.
// Owns: KeyTile: the tile's pitch and size, its copy, and its fragments as B of the first product.
// Never: waits; the family's kernel owns the pipeline.
// Threads: as tile.cuh's copies and mma.cuh's fragments.
#pragma once

#include "attention/common/features.cuh"
#include "attention/common/tile.cuh"
#include "ptx/mma.cuh"

namespace gqa {

// What L2 does with keys and values.
template <typename Config>
constexpr Eviction kKeyEviction = keys_read_once<Config>() ? Eviction::kFirst : Eviction::kNormal;

template <typename Config>
struct KeyTile {
  static constexpr bool kTransposed = keys_transposed<Config>();
  static constexpr int kPitch = row_pitch<KvBits<Config>>(kTransposed ? Config::kTileN : Config::kHeadDim);
  static constexpr int kBytes = (kTransposed ? Config::kHeadDim : Config::kTileN) * kPitch;

  // Keys first .. first + kTileN of one head; stride: from row to row.
  template <int kThreads, typename Valid>
  static __device__ void copy(char* tile, int thread, const KvBits<Config>* head, long long stride, int first,
                              Valid valid) {
    if constexpr (kTransposed)
      copy_transposed_keys<Config::kTileN, Config::kHeadDim, kThreads, Config::kAlign>(tile, thread, head, stride,
                                                                                       first, valid.end);
    else
      copy_keys<Config::kTileN, Config::kHeadDim, kThreads, Config::kAlign, kKeyEviction<Config>>(tile, thread, head,
                                                                                                  stride, first, valid);
  }

  // Elements 8 d .. 8 d + 8 of those keys, of 32 bits: ldmatrix transposes 16.
  static __device__ Fragment transposed_words(u32 lane, int n, int d) {
    Fragment f;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      f.r[i] = __float_as_uint(load_shared(lane + (d * 8 + i % 2 * 4) * kPitch + (n * 16 + i / 2 * 8) * 4));
    return f;
  }

  // This lane's part of the tile's first fragment.
  static __device__ u32 lane(u32 tile) {
    if constexpr (kTransposed && sizeof(KvBits<Config>) == 4)
      return tile + lane_index() % 4 * kPitch + lane_index() / 4 * 4;
    else if constexpr (kTransposed)
      return tile + lane_offset_rows_first(kPitch);
    else
      return tile + lane_offset_columns_first(kPitch);
  }

  // Keys 16 n .. 16 n + 16, and of each the d-th 32 bytes.
  static __device__ Fragment fragment(u32 lane, int n, int d) {
    if constexpr (kTransposed && sizeof(KvBits<Config>) == 4)
      return transposed_words(lane, n, d);
    else if constexpr (kTransposed)
      return ldmatrix_transposed(lane + d * 16 * kPitch + n * 32);
    else
      return ldmatrix(lane + n * 16 * kPitch + d * 32);
  }
};

}  // namespace gqa

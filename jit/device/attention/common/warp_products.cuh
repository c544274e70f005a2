// warp_products.cuh: the two products of a warp's rows, of elements of 16 bits.
// Owns: which fragments of a tile in shared memory meet, and in which order.
// Never: touches global memory, waits, or knows a mask.
// Threads: one warp; nothing is shared between warps.
#pragma once

#include "attention/common/keys.cuh"

namespace gqa {

// kSplit: float32 elements are multiplied by terms (split_products.cuh).
template <typename Config, int kFragments, bool kSplit>
struct WarpProducts {
  static constexpr int kScores = Config::kTileN / 8;
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr int kQPitch = row_pitch<QBits<Config>>(Config::kHeadDim);
  static constexpr int kVPitch = row_pitch<KvBits<Config>>(Config::kHeadDimV);

  static_assert(kIsSame<typename Config::Q, typename Config::Kv>, "mma.m16n8k16 multiplies elements of one type");

  // scores += q k^T.
  static __device__ void add_keys(float (&scores)[kFragments][kScores][4], u32 q_rows, u32 keys) {
    const u32 q_lane = q_rows + lane_offset_rows_first(kQPitch);
    const u32 k_lane = KeyTile<Config>::lane(keys);
#pragma unroll
    for (int d = 0; d < Config::kHeadDim / 16; ++d) {
      Fragment q[kFragments];
#pragma unroll
      for (int m = 0; m < kFragments; ++m) q[m] = ldmatrix(q_lane + m * 16 * kQPitch + d * 32);
#pragma unroll
      for (int n = 0; n < kScores / 2; ++n) {
        const Fragment k = KeyTile<Config>::fragment(k_lane, n, d);
#pragma unroll
        for (int m = 0; m < kFragments; ++m) {
          mma<typename Config::Q>(scores[m][2 * n], q[m], k.r[0], k.r[1]);
          mma<typename Config::Q>(scores[m][2 * n + 1], q[m], k.r[2], k.r[3]);
        }
      }
    }
  }

  // out += p v, with p repacked from the scores' accumulators: their layout is the A operand's.
  static __device__ void add_values(float (&out)[kFragments][kOuts][4], const float (&scores)[kFragments][kScores][4],
                                    u32 values) {
    const u32 v_lane = values + lane_offset_rows_first(kVPitch);
#pragma unroll
    for (int k = 0; k < Config::kTileN / 16; ++k) {
      Fragment p[kFragments];
#pragma unroll
      for (int m = 0; m < kFragments; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* s = &scores[m][2 * k + i / 2][i % 2 * 2];
          p[m].r[i] = Config::Kv::pack(s[0], s[1]);
        }
#pragma unroll
      for (int n = 0; n < kOuts / 2; ++n) {
        const Fragment v = ldmatrix_transposed(v_lane + k * 16 * kVPitch + n * 32);
#pragma unroll
        for (int m = 0; m < kFragments; ++m) {
          mma<typename Config::Kv>(out[m][2 * n], p[m], v.r[0], v.r[1]);
          mma<typename Config::Kv>(out[m][2 * n + 1], p[m], v.r[2], v.r[3]);
        }
      }
    }
  }
};

}  // namespace gqa

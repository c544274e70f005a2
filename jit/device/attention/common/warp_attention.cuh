// warp_attention.cuh: the attention core of one warp: scores, softmax, second product, all in registers.
// Owns: the accumulators of kFragments x 16 query rows, and one step over kTileN keys that lie in shared memory.
// Never: loads from global memory or waits; the families' kernels (flash.cuh, split.cuh) bring the tiles.
// Threads: one warp; nothing is shared between warps.
#pragma once

#include "attention/common/chain_arrays.cuh"
#include "attention/common/keys.cuh"
#include "attention/common/rows.cuh"
#include "attention/common/softmax.cuh"

namespace gqa {

template <typename Config, int kFragments>
struct WarpAttention : ChainArrays<Config, kFragments> {
  static constexpr int kScores = Config::kTileN / 8;
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr int kQPitch = row_pitch<QBits<Config>>(Config::kHeadDim);
  static constexpr int kVPitch = row_pitch<KvBits<Config>>(Config::kHeadDimV);

  static_assert(kIsSame<typename Config::Q, typename Config::Kv>, "mma.m16n8k16 multiplies elements of one type");

  float scores[kFragments][kScores][4];
  float out[kFragments][kOuts][4];
  RowState state[kFragments];

  __device__ WarpAttention() {
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int n = 0; n < kOuts; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) out[m][n][c] = 0;
  }

  // scores = q k^T, through the chain where there is one. q_rows: shared address of this warp's first query row; keys:
  // of the tile, whose first is first_key.
  __device__ void multiply_keys(u32 q_rows, u32 keys, const ScoreParams* numbers, int first_key) {
    const u32 q_lane = q_rows + lane_offset_rows_first(kQPitch);
    const u32 k_lane = KeyTile<Config>::lane(keys);
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int n = 0; n < kScores; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = 0;
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
    this->apply_steps(scores, numbers, first_key);
  }

  // Masks what this warp's rows, starting at packed row `row`, may not see of the keys from first_key on.
  __device__ void mask(const Walk<Config>& walk, int row, int first_key) {
    const int lane_row = row + threadIdx.x % 32 / 4;
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int packed_row = lane_row + m * 16 + h * 8;
        mask_row(scores[m], h, first_key, walk.limit(packed_row));
        if constexpr (has_window<Config>()) mask_row_before(scores[m], h, first_key, walk.first(packed_row));
      }
  }

  __device__ void softmax(float scale_log2) {
#pragma unroll
    for (int m = 0; m < kFragments; ++m) state[m].update(scores[m], out[m], scale_log2);
  }

  // out += p v, with p repacked from the scores' accumulators: their layout is the A operand's.
  __device__ void multiply_values(u32 values) {
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

  __device__ void finish() {
#pragma unroll
    for (int m = 0; m < kFragments; ++m) state[m].finish();
  }
};

}  // namespace gqa

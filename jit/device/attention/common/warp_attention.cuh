// warp_attention.cuh: the attention core of one warp: scores, softmax, second product, all in registers.
// Owns: the accumulators of kFragments x 16 query rows, and one step over kTileN keys that lie in shared memory; the
// two products are warp_products.cuh's. Never: loads from global memory or waits; the families' kernels (flash.cuh,
// split.cuh) bring the tiles. Threads: one warp; nothing is shared between warps.
#pragma once

#include "attention/common/chain_arrays.cuh"
#include "attention/common/keys.cuh"
#include "attention/common/rows.cuh"
#include "attention/common/softmax.cuh"
#include "attention/common/split_products.cuh"

namespace gqa {

template <typename Config, int kFragments>
struct WarpAttention : ChainArrays<Config, kFragments> {
  static constexpr int kScores = Config::kTileN / 8;
  static constexpr int kOuts = Config::kHeadDimV / 8;
  using Products = WarpProducts<Config, kFragments, terms<Config>() != 0>;

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
#pragma unroll
    for (int m = 0; m < kFragments; ++m)
#pragma unroll
      for (int n = 0; n < kScores; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = 0;
    Products::add_keys(scores, q_rows, keys);
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

  // out += p v.
  __device__ void multiply_values(u32 values) { Products::add_values(out, scores, values); }

  __device__ void finish() {
#pragma unroll
    for (int m = 0; m < kFragments; ++m) state[m].finish();
  }
};

}  // namespace gqa

// epilogue.cuh: finished rows of a warpgroup, on their way out.
// Owns: the normalised tile in shared memory, swizzled as TMA wants it, its store, and the log-sum-exp of its rows.
// Never: waits: the store runs under the next tile.
// Threads: the 128 threads of a warpgroup; one issues the store.
#pragma once

#include "rows.cuh"
#include "softmax.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma.cuh"

namespace gqa {

// PTX ISA 9.7.14.5.16, stmatrix: four 8x8 tiles of 16-bit elements; lane i gives the row address of row i % 8 of tile
// i / 8.
__device__ inline void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// Rows that saw no key are zero, whatever the values they were multiplied by.
template <int kOuts>
__device__ inline void clear_unseen(float (&out)[kOuts][4], const RowState& state) {
#pragma unroll
  for (int n = 0; n < kOuts; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) out[n][c] = state.sum[c / 2] == 0 ? 0.f : out[n][c];
}

// Out's rows, normalised, into panels of kTileM rows; `tile`: the warpgroup's first row.
template <typename Config, int kFragments>
__device__ inline void write_out(float (&out)[kFragments][4], const RowState& state, u32 tile) {
  const int lane = lane_index(), warp = thread_index() % kWarpgroup / 32;
  const u32 row = tile + (warp * 16 + lane % 16) * kPanelRowBytes;
  const float inverse[2] = {inverse_or_zero(state.sum[0]), inverse_or_zero(state.sum[1])};
  if (state.sum[0] == 0 || state.sum[1] == 0) clear_unseen(out, state);
#pragma unroll
  for (int n = 0; n < Config::kHeadDimV / 8; n += 2) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* o = &out[n + i / 2][i % 2 * 2];
      packed[i] = Config::Element::pack(o[0] * inverse[i % 2], o[1] * inverse[i % 2]);
    }
    const int piece = (n % 8 + lane / 16) ^ (lane % 8);  // the 128-byte swizzle: 16-byte pieces, xor with the row
    stmatrix(row + n / 8 * Config::kTileM * kPanelRowBytes + piece * 16, packed[0], packed[1], packed[2], packed[3]);
  }
}

// Begins the store of what write_out left; one thread, after the others' fence and barrier.
template <typename Config>
__device__ inline void send_out(u32 tile, const TensorMap& map, const Place& place, int first_row) {
#pragma unroll
  for (int panel = 0; panel < panels(Config::kHeadDimV); ++panel)
    store_box(tile + panel * Config::kTileM * kPanelRowBytes, map, panel * kPanelColumns, 0, first_row / Config::kPack,
              place.head / Config::kPack, place.batch);
  commit_stores();
}

template <typename Config>
__device__ inline void store_lse(const AttentionParams& p, const Place& place, const RowState& state, int warp_row) {
  if (p.lse == nullptr || lane_index() % 4 != 0) return;
  float* lse = p.lse + place_offset(p.lse_strides, place.batch, place.head);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row + lane_index() / 4 + h * 8;
    if (row >= 0 && row_exists<Config>(p, row))
      lse[row_offset<Config>(p.lse_strides, row)] = log_sum_exp(state.maximum[h], state.sum[h], p.scale_log2);
  }
}

}  // namespace gqa

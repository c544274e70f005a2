// epilogue.cuh: finished rows of a warpgroup, on their way out.
// Owns: the two ways they leave: through shared memory, swizzled as TMA wants it, and straight from registers; and the
// log-sum-exp of the rows.
// Never: waits: stores run under the next tile.
// Threads: the 128 threads of a warpgroup; one issues the store.
#pragma once

#include "attention/common/rows.cuh"
#include "attention/common/softmax.cuh"
#include "attention/wgmma_flash/tile_sequence.cuh"
#include "attention/wgmma_flash/warpgroup_features.cuh"
#include "attention/wgmma_flash/warpgroup_weights.cuh"
#include "ptx/tma.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma.cuh"

namespace gqa {

// PTX ISA 9.7.14.5.16, stmatrix: four 8x8 tiles of 16-bit elements; lane i gives the row address of row i % 8 of tile
// i / 8.
__device__ inline void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// Whether sums are inverted by one instruction: a tile ends sooner, but loops of other kernels the assembler then
// orders worse (docs/performance.md).
template <typename Config>
constexpr bool kInvertsApprox = ones_column<Config>() || key_shares<Config>() > 1;

// What a lane's two rows are to be multiplied by. Rows that saw no key become zero, whatever their values were.
template <typename Config, int kOuts>
__device__ inline void invert(float (&out)[kOuts][4], const RowState& state, float (&inverse)[2]) {
  inverse[0] = inverse_or_zero<kInvertsApprox<Config>>(state.sum[0]);
  inverse[1] = inverse_or_zero<kInvertsApprox<Config>>(state.sum[1]);
  if (state.sum[0] != 0 && state.sum[1] != 0) return;
#pragma unroll
  for (int n = 0; n < kOuts; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) out[n][c] = state.sum[c / 2] == 0 ? 0.f : out[n][c];
}

// Two neighbouring elements of a fragment's row half h, normalised.
template <typename Config>
__device__ inline u32 normalised(const float (&out)[4], int h, const float (&inverse)[2]) {
  return Config::Out::pack(out[2 * h] * inverse[h], out[2 * h + 1] * inverse[h]);
}

// Rows of out's panels from kFirst on, kPanels of them, normalised, into panels of kTileM rows; `tile`: the
// warpgroup's first row.
template <typename Config, int kFirst, int kPanels, int kFragments>
__device__ inline void write_out(const float (&out)[kFragments][4], const float (&inverse)[2], u32 tile) {
  constexpr int kOuts = Config::kHeadDimV / 8, kBegin = kFirst * 8, kEnd = kBegin + kPanels * 8;
  const int lane = lane_index(), warp = thread_index() % kWarpgroup / 32;
  const u32 row = tile + (warp * 16 + lane % 16) * kPanelRowBytes;
#pragma unroll
  for (int n = kBegin; n < (kEnd < kOuts ? kEnd : kOuts); n += 2) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = normalised<Config>(out[n + i / 2], i % 2, inverse);
    const int piece = (n % 8 + lane / 16) ^ (lane % 8);  // the 128-byte swizzle: 16-byte pieces, xor with the row
    stmatrix(row + (n - kBegin) / 8 * Config::kTileM * kPanelRowBytes + piece * 16, packed[0], packed[1], packed[2],
             packed[3]);
  }
}

// Each lane of a quad has four words: lane t gets the t-th of all lanes.
__device__ inline void transpose_quad(u32 (&words)[4]) {
#pragma unroll
  for (int by = 1; by <= 2; by *= 2) {
    const bool upper = (lane_index() & by) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & by) != 0) continue;
      const u32 other = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + by], by);
      (upper ? words[i] : words[i + by]) = other;
    }
  }
}

// A row of out from a quad's registers: 16 bytes a lane of each four fragments, and 4 of those left over.
template <typename Config, int kFragments>
__device__ inline void store_row(OutBits<Config>* row, bool exists, const float (&out)[kFragments][4], int h,
                                 const float (&inverse)[2]) {
  constexpr int kOuts = Config::kHeadDimV / 8, kWhole = kOuts / 4 * 4;
  const int lane = lane_index() % 4;
#pragma unroll
  for (int n = 0; n < kWhole; n += 4) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = normalised<Config>(out[n + i], h, inverse);
    transpose_quad(words);
    if (exists) *reinterpret_cast<uint4*>(row + (n + lane) * 8) = make_uint4(words[0], words[1], words[2], words[3]);
  }
#pragma unroll
  for (int n = kWhole; n < kOuts; ++n)
    if (exists) *reinterpret_cast<u32*>(row + n * 8 + lane * 2) = normalised<Config>(out[n], h, inverse);
}

// Where out has a sequence's rows of a head.
template <typename Config>
__device__ inline OutBits<Config>* out_head(const AttentionParams& p, const ConsumerSequence<Config>& sequence,
                                            const Place& place) {
  return static_cast<OutBits<Config>*>(p.out) + place_offset<Config>(p.out_strides, place, sequence.first_query());
}

// Out's rows, normalised, straight from registers; `warp_row`: this warp's first, below 0 where none exist.
template <typename Config, int kFragments>
__device__ inline void store_rows(const AttentionParams& p, const ConsumerSequence<Config>& sequence,
                                  const Place& place, const float (&out)[kFragments][4], const float (&inverse)[2],
                                  int warp_row) {
  OutBits<Config>* first = out_head<Config>(p, sequence, place);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row + lane_index() / 4 + h * 8;
    const bool exists = row >= 0 && sequence.has_row(p, row);
    store_row<Config>(first + row_offset<Config>(p.out_strides, row), exists, out, h, inverse);
  }
}

// Begins the store of what write_out left; one thread, after the others' fence and barrier.
template <typename Config, int kFirst, int kPanels>
__device__ inline void send_out(u32 tile, const TensorMap& map, const ConsumerSequence<Config>& sequence,
                                const Place& place, int first_row) {
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel)
    store_box(tile + panel * Config::kTileM * kPanelRowBytes, map, (kFirst + panel) * kPanelColumns, 0,
              sequence.first_query() + first_row / Config::kPack, place.head / Config::kPack,
              query_slab<Config>(place));
  commit_stores();
}

// Stores what write_out left of a warpgroup's rows but those that do not exist: where the next rows are another
// sequence's. All threads, after a barrier.
template <typename Config, int kFirst, int kPanels>
__device__ inline void store_out(const char* tile, const AttentionParams& p, const ConsumerSequence<Config>& sequence,
                                 const Place& place, int first_row) {
  constexpr int kPieces = kPanelRowBytes / 16;
  OutBits<Config>* first = out_head<Config>(p, sequence, place);
  const int piece = thread_index() % kPieces;
#pragma unroll 1
  for (int r = thread_index() % kWarpgroup / kPieces; r < 64; r += kWarpgroup / kPieces) {
    const int row = first_row + r;
    if (row < 0 || !sequence.has_row(p, row)) continue;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const int column = (kFirst + panel) * kPanelColumns + piece * 8;
      if (column >= Config::kHeadDimV) continue;
      const char* from = tile + (panel * Config::kTileM + r) * kPanelRowBytes + (piece ^ (r % 8)) * 16;
      *reinterpret_cast<uint4*>(first + row_offset<Config>(p.out_strides, row) + column) =
          *reinterpret_cast<const uint4*>(from);
    }
  }
}

template <typename Config>
__device__ inline void store_lse(const AttentionParams& p, const ConsumerSequence<Config>& sequence, const Place& place,
                                 const RowState& state, int warp_row) {
  if (p.lse == nullptr || lane_index() % 4 != 0) return;
  float* lse = p.lse + place_offset<Config>(p.lse_strides, place, sequence.first_query());
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row + lane_index() / 4 + h * 8;
    if (row >= 0 && sequence.has_row(p, row))
      lse[row_offset<Config>(p.lse_strides, row)] =
          log_sum_exp(state.maximum[h], state.sum[h] * (1 << kBelow<Config>), p.scale_log2);
  }
}

}  // namespace gqa

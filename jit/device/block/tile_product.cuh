// tile_product.cuh: products of tiles in shared memory, their sums in registers.
// Owns: Products, the result's 16x16 tiles shared out among the warps, by columns, rows and the inner dimension; its
// multiply(), on ldmatrix and mma.sync m16n8k16.
// Never: synchronises, or reads past a buffer: rows and columns that only pad a fragment repeat the last ones, and
// their results are not visited.
// Threads: all warps of the block call together.
#pragma once

#include "block/tile_buffer.cuh"
#include "ptx/mma.cuh"

namespace gqa {

__host__ __device__ constexpr int parts_of(int whole, int by) { return (whole + by - 1) / by; }
__device__ inline int least(int a, int b) { return a < b ? a : b; }

// A 16x16 block of a stored tile whose rows are the fragment's own: A as it is, or B transposed.
template <bool kColumnsFirst, bool kTransposed, typename Buffer>
__device__ inline Fragment fragment(Buffer tile, int row, int last_row, int piece) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r = kColumnsFirst ? lane % 8 + lane / 16 * 8 : lane % 16;
  const int p = kColumnsFirst ? lane / 8 % 2 : lane / 16;
  const u32 address = shared_address(tile.piece(least(row + r, last_row), least(piece + p, Buffer::kPieces - 1)));
  if constexpr (kTransposed) {
    return ldmatrix_transposed(address);
  } else {
    return ldmatrix(address);
  }
}

template <int kBatches, int kRows, int kColumns, int kWarpsRows, int kWarpsColumns, int kWarpsInner>
struct Products {
  static constexpr int kTiles = parts_of(kRows, 16);  // of a batch
  static constexpr int kRowTiles = kBatches * kTiles, kPairs = parts_of(kColumns, 16);
  static constexpr int kOwnRows = parts_of(kRowTiles, kWarpsRows), kOwnPairs = parts_of(kPairs, kWarpsColumns);
  float sum[kOwnRows][kOwnPairs][2][4];

  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int first_row() { return warp() / kWarpsColumns % kWarpsRows * kOwnRows; }
  static __device__ int first_pair() { return warp() % kWarpsColumns * kOwnPairs; }
  static __device__ int share() { return warp() / (kWarpsColumns * kWarpsRows); }  // of the inner dimension

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i)
#pragma unroll
      for (int j = 0; j < kOwnPairs; ++j)
#pragma unroll
        for (int c = 0; c < 8; ++c) sum[i][j][c / 4][c % 4] = 0.f;
  }

  // visit(row of the flat result, column, sum), for what this warp has of each element that is there.
  template <typename Visit>
  __device__ void each(Visit visit) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      const int tile = first_row() + i;
      if (tile >= kRowTiles) break;
#pragma unroll
      for (int j = 0; j < kOwnPairs; ++j) {
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          const int row = tile % kTiles * 16 + lane / 4 + c % 4 / 2 * 8;
          const int column = (first_pair() + j) * 16 + c / 4 * 8 + lane % 4 * 2 + c % 2;
          if (row < kRows && column < kColumns) visit(tile / kTiles * kRows + row, column, sum[i][j][c / 4][c % 4]);
        }
      }
    }
  }

  // sum += a b. a: kRows x kInner a batch, or kInner x kRows where kTransposeA; b: kInner x kColumns, or kColumns x
  // kInner. a_batch(batch), b_batch(batch): which batch of theirs meets that of the result.
  template <typename Element, int kInner, bool kTransposeA, bool kTransposeB, bool kOneB, typename A, typename B,
            typename ABatch, typename BBatch>
  __device__ void multiply(A a, B b, ABatch a_batch, BBatch b_batch) {
    constexpr int kUnroll = kInner / 16 / kWarpsInner <= 4 ? 4 : 2;
#pragma unroll kUnroll
    for (int k = share(); k < kInner / 16; k += kWarpsInner) {
      Fragment left[kOwnRows];
#pragma unroll
      for (int i = 0; i < kOwnRows; ++i) left[i] = left_at<kInner, kTransposeA>(a, first_row() + i, k, a_batch);
#pragma unroll
      for (int j = 0; j < kOwnPairs; ++j) {
        if (first_pair() + j >= kPairs) break;
        Fragment right = right_at<kInner, kTransposeB>(b, first_row(), j, k, b_batch);
#pragma unroll
        for (int i = 0; i < kOwnRows; ++i) {
          if (first_row() + i >= kRowTiles) break;
          if (!kOneB && i > 0) right = right_at<kInner, kTransposeB>(b, first_row() + i, j, k, b_batch);
          mma<Element>(sum[i][j][0], left[i], right.r[0], right.r[1]);
          if (kColumns > 8) mma<Element>(sum[i][j][1], left[i], right.r[2], right.r[3]);
        }
      }
    }
  }

 private:
  template <int kInner, bool kTransposeA, typename A, typename Batch>
  static __device__ Fragment left_at(A a, int tile, int k, Batch batch) {
    const int of = batch(least(tile, kRowTiles - 1) / kTiles), row = tile % kTiles * 16;
    if constexpr (kTransposeA) {
      return fragment<true, true>(a, of * kInner + k * 16, of * kInner + kInner - 1, row / 8);
    } else {
      return fragment<false, false>(a, of * kRows + row, of * kRows + kRows - 1, k * 2);
    }
  }

  template <int kInner, bool kTransposeB, typename B, typename Batch>
  static __device__ Fragment right_at(B b, int tile, int j, int k, Batch batch) {
    const int of = batch(least(tile, kRowTiles - 1) / kTiles), column = (first_pair() + j) * 16;
    if constexpr (kTransposeB) {
      return fragment<true, false>(b, of * kColumns + column, of * kColumns + kColumns - 1, k * 2);
    } else {
      return fragment<false, true>(b, of * kInner + k * 16, of * kInner + kInner - 1, column / 8);
    }
  }
};

}  // namespace gqa

// tile_stream.cuh: a loop whose operands go from global memory to the registers of mma.sync, with nothing between.
// Owns: what a lane holds of a piece of 32 elements along the loop: StreamedRows of a left operand, StreamedColumns and
// StreamedRight of a right one; StreamedSums and StreamedFold, what a warp adds up; stream(), the loop itself.
// Never: touches shared memory in the loop.
// Threads: lane 4 g + t of a warp has rows g, g + 8, .. of the left operand, elements 8 t .. 8 t + 7 of the piece, and
// columns of the right one that follow from g. A sum over the piece does not care for the order of its elements, so
// each lane's eight lie side by side in memory, and make up elements 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of two products.
#pragma once

#include "block/tile_buffer.cuh"
#include "ptx/mma.cuh"

namespace gqa {

// PTX ISA 9.7.9.8, ld. Not .nc, though nothing here writes what is read: a grid that begins before the end of the one
// before may read what that one wrote.
__device__ inline void load_words(u32 (&to)[4], const void* from) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from)
               : "memory");
}

// Read once, so that it need not stay in L1; the memory's lines are 128 bytes.
__device__ inline void load_once(u32 (&to)[4], const void* from) {
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from)
               : "memory");
}
__device__ inline void load_once(u32 (&to)[2], const void* from) {
  asm volatile("ld.global.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "l"(from)
               : "memory");
}
__device__ inline void load_once(u32 (&to)[1], const void* from) {
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(to[0]) : "l"(from) : "memory");
}
__device__ inline u16 load_half(const void* from) {
  u16 half;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(from) : "memory");
  return half;
}

// PTX ISA 9.7.9.15, prefetch: the line, into L2. Changes nothing that a kernel could see, so it may come before what
// the grids before this one write is visible.
__device__ inline void prefetch_line(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

template <int kWords>
__device__ inline void clear_words(u32 (&words)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = 0;
}

// Eight elements each, or zeros where place(i, offset), which says where they begin in the tensor, says they are not
// there.
template <bool kOnce, int kCount, typename Place>
__device__ inline void load_eights(u32 (&word)[kCount][4], const void* tensor, Place place) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    long long offset = 0;
    if (!place(i, offset)) {
      clear_words(word[i]);
    } else if constexpr (kOnce) {
      load_once(word[i], static_cast<const u16*>(tensor) + offset);
    } else {
      load_words(word[i], static_cast<const u16*>(tensor) + offset);
    }
  }
}

__device__ inline int stream_lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int stream_depth() { return stream_lane() % 4 * 8; }  // where a lane's elements of a piece begin

// The row of a half of the left operand; those past the last repeat it.
template <int kRows>
__device__ inline int stream_row(int half) {
  const int row = stream_lane() / 4 + half * 8;
  return row < kRows ? row : kRows - 1;
}

// Eight elements of each of a lane's rows. One half serves all rows where they are the same.
template <int kRows>
struct StreamedRows {
  static constexpr int kHalves = (kRows + 7) / 8;
  u32 word[kHalves][4];

  // place(half, offset): load_eights.
  template <typename Place>
  __device__ void load(const void* tensor, Place place) {
    load_eights<false>(word, tensor, place);
  }

  template <typename Element>
  __device__ float get(int half, int at) const {
    const u32 pair = word[half][at / 2];
    return Element::to_float(static_cast<u16>(at % 2 == 0 ? pair & 0xffff : pair >> 16));
  }

  // value(half, element of the eight).
  template <typename Element, typename Value>
  __device__ void set(Value value) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) word[half][i] = Element::pack(value(half, 2 * i), value(half, 2 * i + 1));
  }

  // A of the product with elements 4 s .. 4 s + 3 of the eight; past the last half there is nothing.
  __device__ Fragment left(int tile, int s) const {
    const int low = 2 * tile, high = 2 * tile + 1;
    const bool both = high < kHalves;
    return {{word[low][2 * s], both ? word[both ? high : low][2 * s] : 0, word[low][2 * s + 1],
             both ? word[both ? high : low][2 * s + 1] : 0}};
  }
};

// A right operand as it lies, its columns side by side: kWidth columns, beginning at g kWidth, of eight rows.
template <int kWidth>
struct StreamedColumns {
  static constexpr int kWords = kWidth > 1 ? kWidth / 2 : 1;
  u32 word[8][kWords];

  // offset: of the lane's first row and column; stride: between rows; there: whether its columns are.
  __device__ void load(const void* tensor, long long offset, long long stride, bool there) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u16* from = static_cast<const u16*>(tensor) + offset + i * stride;
      if (!there) {
        clear_words(word[i]);
      } else if constexpr (kWidth > 1) {
        load_once(word[i], from);
      } else {
        word[i][0] = load_half(from);
      }
    }
  }

  // A line of each row of the piece; offset: of its first row and column.
  static __device__ void prefetch(const void* tensor, long long offset, long long stride, bool there) {
    if (there) prefetch_line(static_cast<const u16*>(tensor) + offset + stream_lane() * stride);
  }

  // B's two registers for the j-th of the eighths and elements 4 s .. 4 s + 3: pairs of rows.
  __device__ void right(int j, int s, u32& low, u32& high) const {
    low = pair(j, 4 * s);
    high = pair(j, 4 * s + 2);
  }

  // Puts those of a row's sums that registers c and c + 1 hold: columns kWidth (2 t) and kWidth (2 t + 1) on. Lanes
  // that would meet in a bank begin with different ones.
  template <typename Buffer>
  static __device__ void put(Buffer to, int row, int first, int t, const float (&sum)[kWidth][4], int c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool odd = (i ^ t / 2) == 1;
      const int column = first + kWidth * (2 * t + (odd ? 1 : 0));
      float own[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) own[j] = odd ? sum[j][c + 1] : sum[j][c];
      put_row(to.at(row, column), own);
    }
  }

 private:
  __device__ u32 pair(int j, int row) const {
    return __byte_perm(word[row][j / 2], word[row + 1][j / 2], j % 2 == 0 ? 0x5410 : 0x7632);
  }
};

// A right operand that lies transposed: eight elements along the loop of column g of each eighth.
template <int kWidth>
struct StreamedRight {
  u32 word[kWidth][4];

  // place(column, offset): load_eights, of a column of the warp's.
  template <typename Place>
  __device__ void load(const void* tensor, Place place) {
    load_eights<true>(word, tensor, [&](int j, long long& offset) { return place(8 * j + stream_lane() / 4, offset); });
  }

  // A line of each column, where it is there; offset: of the first column's piece.
  static __device__ void prefetch(const void* tensor, long long offset, long long stride, int columns) {
#pragma unroll
    for (int column = stream_lane(); column < 8 * kWidth; column += 32) {
      if (column < columns) prefetch_line(static_cast<const u16*>(tensor) + offset + column * stride);
    }
  }

  __device__ void right(int j, int s, u32& low, u32& high) const {
    low = word[j][2 * s];
    high = word[j][2 * s + 1];
  }

  template <typename Buffer>
  static __device__ void put(Buffer to, int row, int first, int t, const float (&sum)[kWidth][4], int c) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float own[2] = {sum[j][c], sum[j][c + 1]};
      put_row(to.at(row, first + 8 * j + 2 * t), own);
    }
  }
};

// What a warp has of kRows x 8 kWidth sums of products. Right: which of the two kinds its right operands are.
template <int kRows, int kWidth, typename Right>
struct StreamedSums {
  static constexpr int kTiles = (kRows + 15) / 16;
  float sum[kTiles][kWidth][4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[i][j][c] = 0.f;
  }

  template <typename Element>
  __device__ void multiply(const StreamedRows<kRows>& a, const Right& b) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      Fragment left[kTiles];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) left[i] = a.left(i, s);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        u32 low, high;
        b.right(j, s, low, high);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) mma<Element>(sum[i][j], left[i], low, high);
      }
    }
  }

  // The rows that are there, into columns `first` and on.
  template <typename Buffer>
  __device__ void put(Buffer to, int first) const {
    const int g = stream_lane() / 4, t = stream_lane() % 4;
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = i * 16 + g + half * 8;
        if (i * 16 + half * 8 < kRows && row < kRows) Right::put(to, row, first, t, sum[i], 2 * half);
      }
  }
};

// What a lane has of sums along kRows rows.
template <int kRows>
struct StreamedFold {
  static constexpr int kHalves = (kRows + 7) / 8;
  float sum[kHalves];

  __device__ void clear() {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) sum[half] = 0.f;
  }

  // term(half, element of the eight).
  template <typename Term>
  __device__ void add(float factor, Term term) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float piece = 0.f;
#pragma unroll
      for (int at = 0; at < 8; ++at) piece += term(half, at);
      sum[half] = fmaf(piece, factor, sum[half]);
    }
  }

  // The sums of the four lanes that share a row, by one of them.
  template <typename Buffer>
  __device__ void put(Buffer to) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float whole = sum[half];
      whole += __shfl_xor_sync(0xffffffff, whole, 1);
      whole += __shfl_xor_sync(0xffffffff, whole, 2);
      const int row = stream_lane() / 4 + half * 8;
      if (stream_lane() % 4 == 0 && row < kRows) to.put(row, 0, whole);
    }
  }
};

// Pieces first, first + step, ... below end, kAhead of them on their way. load(slot, piece) and use(slot) know which
// registers a slot is.
template <int kAhead, typename Load, typename Use>
__device__ inline void stream(int first, int step, int end, Load load, Use use) {
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) {
    if (first + slot * step < end) load(slot, first + slot * step);
  }
#pragma unroll 1
  for (int piece = first; piece < end; piece += kAhead * step) {
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      const int now = piece + slot * step, next = now + kAhead * step;
      if (now < end) use(slot);
      if (next < end) load(slot, next);
    }
  }
}

}  // namespace gqa

// tile_buffer.cuh: a tile in shared memory.
// Owns: TileBuffer, rows of elements of any of the three types; 16-bit rows are swizzled in pieces of 16 bytes, so that
// the eight rows that an ldmatrix reads lie in different banks (search/graph/tile/tile_plan.h plans the same bytes).
// Never: synchronises or touches global memory.
// Threads: values; who writes what is the kernel's.
#pragma once

#include "ptx/cp_async.cuh"

namespace gqa {

template <typename Element>
struct Half {
  static constexpr int kBytes = 2;
  using Bits = u16;
  static __device__ float to_float(u16 bits) { return Element::to_float(bits); }
  static __device__ u16 from_float(float value) { return static_cast<u16>(Element::pack(value, 0.f)); }
};

// How elements of a type lie in memory: Stored<F32>, Stored<F16>, Stored<BF16>.
template <typename Element>
struct StoredAs {
  using Type = Half<Element>;
};
template <>
struct StoredAs<F32> {
  using Type = F32;
};
template <typename Element>
using Stored = typename StoredAs<Element>::Type;

__host__ __device__ constexpr int tile_pieces(int columns, int bytes) { return (columns * bytes + 15) / 16; }

// 16-byte pieces between rows.
__host__ __device__ constexpr int tile_pitch_pieces(int columns, int bytes) {
  const int pieces = tile_pieces(columns, bytes);
  if (bytes == 4 || pieces % 2 == 1 || pieces == 2 || pieces == 4 || pieces % 8 == 0) return pieces;
  return pieces + 1;
}

// kPad: bytes between rows that nothing lies in.
template <typename Element_, int kRows_, int kColumns_, int kPad = 0>
struct TileBuffer {
  using Element = Element_;
  using Type = Stored<Element>;
  using Bits = typename Type::Bits;
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kPieces = tile_pieces(kColumns, Type::kBytes);  // of a row
  static constexpr int kPieceElements = 16 / Type::kBytes;
  static constexpr int kPitch = tile_pitch_pieces(kColumns, Type::kBytes) * 16 + kPad;
  static constexpr int kBytes = (kRows * kPitch + 127) / 128 * 128;

  char* memory;

  // The copy `at` of those that lie one after another.
  __device__ TileBuffer copy(int at) const { return {memory + at * kBytes}; }

  // Which piece holds the elements of piece `piece` of a row.
  static __device__ int swizzled(int row, int piece) {
    if constexpr (Type::kBytes == 4) return piece;
    if constexpr (kPieces % 8 == 0) return piece ^ (row & 7);
    if constexpr (kPieces == 4) return piece ^ (row >> 1 & 3);
    if constexpr (kPieces == 2) return piece ^ (row >> 2 & 1);
    return piece;
  }
  __device__ char* piece(int row, int piece) const { return memory + row * kPitch + swizzled(row, piece) * 16; }
  __device__ Bits* at(int row, int column) const {
    return reinterpret_cast<Bits*>(piece(row, column / kPieceElements)) + column % kPieceElements;
  }
  __device__ float get(int row, int column) const { return Type::to_float(*at(row, column)); }
  __device__ void put(int row, int column, float value) const { *at(row, column) = Type::from_float(value); }
};

// Float32 elements of a row side by side, 16 bytes at a time where there are so many.
template <int kCount>
__device__ inline void put_row(u32* to, const float (&from)[kCount]) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4)
      *reinterpret_cast<uint4*>(to + i) = make_uint4(__float_as_uint(from[i]), __float_as_uint(from[i + 1]),
                                                     __float_as_uint(from[i + 2]), __float_as_uint(from[i + 3]));
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __float_as_uint(from[i]);
  }
}

__device__ inline void set_row(float (&to)[4], const uint4& bits) {
  to[0] = bits_to_float(bits.x), to[1] = bits_to_float(bits.y);
  to[2] = bits_to_float(bits.z), to[3] = bits_to_float(bits.w);
}

template <int kCount>
__device__ inline void get_row(float (&to)[kCount], const u32* from) {
  if constexpr (kCount == 4) {
    set_row(to, *reinterpret_cast<const uint4*>(from));
  } else {
    to[0] = bits_to_float(*from);
  }
}

// The sum of what the warps that share a product's inner dimension have of an element.
template <int kCopies, typename Buffer>
__device__ inline float total(Buffer parts, int row, int column) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCopies; ++i) sum += parts.copy(i).get(row, column);
  return sum;
}

}  // namespace gqa

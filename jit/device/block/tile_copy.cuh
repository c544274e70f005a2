// tile_copy.cuh: tiles from global to shared memory.
// Owns: load_pieces(), 16 bytes at a time behind the threads' backs, zero past the tile's end; load_elements(), for
// tensors whose rows do not lie so, in the order in which the tensor does.
// Never: waits or synchronises.
// Threads: all threads of the block share a copy.
#pragma once

#include "block/tile_buffer.cuh"

namespace gqa {

// Rows of `columns` elements that are there. place(row, offset) says where a row begins in the tensor, and whether it
// is there; begins are multiples of 16 bytes.
template <int kThreads, typename Buffer, typename Place>
__device__ inline void load_pieces(Buffer tile, const void* tensor, int columns, Place place) {
  constexpr int kTotal = Buffer::kRows * Buffer::kPieces;
#pragma unroll 4
  for (int i = threadIdx.x; i < kTotal; i += kThreads) {
    const int row = i / Buffer::kPieces, piece = i % Buffer::kPieces;
    long long offset = 0;
    const bool there = place(row, offset);
    const int left = (columns - piece * Buffer::kPieceElements) * Buffer::Type::kBytes;
    const int bytes = !there || left < 0 ? 0 : left < 16 ? left : 16;
    offset = bytes == 0 ? 0 : offset + piece * Buffer::kPieceElements;
    cp_async_16_bytes(shared_address(tile.piece(row, piece)),
                      static_cast<const char*>(tensor) + offset * Buffer::Type::kBytes, bytes);
  }
}

// place(i, row, column, offset): element i of the tile in the tensor's order, where it goes and where it lies.
template <int kThreads, typename Buffer, typename Place>
__device__ inline void load_elements(Buffer tile, const void* tensor, Place place) {
#pragma unroll 4
  for (int i = threadIdx.x; i < Buffer::kRows * Buffer::kColumns; i += kThreads) {
    int row = 0, column = 0;
    long long offset = 0;
    const bool there = place(i, row, column, offset);
    typename Buffer::Bits bits = 0;
    if (there) bits = static_cast<const typename Buffer::Bits*>(tensor)[offset];
    *tile.at(row, column) = bits;
  }
}

template <typename Element>
__device__ inline float read(const void* tensor, long long offset) {
  return Stored<Element>::to_float(static_cast<const typename Stored<Element>::Bits*>(tensor)[offset]);
}

template <typename Element>
__device__ inline void write(void* tensor, long long offset, float value) {
  static_cast<typename Stored<Element>::Bits*>(tensor)[offset] = Stored<Element>::from_float(value);
}

}  // namespace gqa

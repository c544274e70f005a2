// tile.cuh: moving tiles between global and shared memory.
// Owns: the row pitch, the copy of a tile's rows in 16-byte pieces (or element by element where alignment rules vectors
// out), zero-filled past the tensor's end, and the store of finished rows.
// Never: waits; the family's kernel owns the pipeline.
// Threads: `kThreads` threads, numbered by `thread`, share a copy.
#pragma once

#include "ptx/cp_async.cuh"

namespace gqa {

// Bytes between rows: one 16-byte pad keeps the eight rows of an ldmatrix in different bank groups.
__host__ __device__ constexpr int row_pitch(int columns) { return 2 * columns + 16; }

// Copies one 16-byte piece, or zeros. kAlign is what every row of the tensor is aligned to.
template <int kAlign>
__device__ inline void copy_piece(char* destination, const u16* source, bool valid) {
  if constexpr (kAlign >= 16) {
    cp_async_16(shared_address(destination), source, valid);
  } else {
    u32 words[4] = {0, 0, 0, 0};
    if (valid) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = source[2 * i] | static_cast<u32>(source[2 * i + 1]) << 16;
    }
    *reinterpret_cast<uint4*>(destination) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Copies kRows x kColumns elements; row(r) gives the address of row r, or null where it lies past the end.
template <int kRows, int kColumns, int kThreads, int kAlign, typename RowAddress>
__device__ inline void copy_tile(char* tile, int thread, RowAddress row) {
  constexpr int kPieces = kColumns / 8;
  constexpr int kTotal = kRows * kPieces;
#pragma unroll
  for (int start = 0; start < kTotal; start += kThreads) {
    const int i = start + thread;
    if (kTotal % kThreads != 0 && i >= kTotal) break;
    const int r = i / kPieces, c = i % kPieces;
    row(r, [&](const u16* source, bool valid) {
      copy_piece<kAlign>(tile + r * row_pitch(kColumns) + c * 16, source + c * 8, valid);
    });
  }
}

// Keys below `end`, and keys from `begin` on and below `end`: which of a block are brought; zeros come for the others.
struct Below {
  int end;
  __device__ bool operator()(int key) const { return key < end; }
  // Whether keys first .. last, without the last, hold one.
  __device__ bool any(int first, int) const { return first < end; }
};
struct Between {
  int begin, end;
  __device__ bool operator()(int key) const { return key >= begin && key < end; }
  __device__ bool any(int first, int last) const { return last > begin && first < end; }
};

// Keys first .. first + kRows of one head of k or v: rows at a constant stride, valid where `valid` says so of the key.
template <int kRows, int kColumns, int kThreads, int kAlign, typename Valid>
__device__ inline void copy_keys(char* tile, int thread, const u16* head, long long stride, int first, Valid valid) {
  constexpr int kPieces = kColumns / 8;
  if constexpr (kThreads % kPieces == 0 && kRows % (kThreads / kPieces) == 0) {
    // Every thread keeps its column: one running pointer instead of a multiplication (and its registers) a row.
    constexpr int kStep = kThreads / kPieces;
    const int row = thread / kPieces;
    const u16* source = head + (first + row) * stride + thread % kPieces * 8;
    char* destination = tile + row * row_pitch(kColumns) + thread % kPieces * 16;
#pragma unroll
    for (int r = 0; r < kRows; r += kStep) {
      copy_piece<kAlign>(destination + r * row_pitch(kColumns), source, valid(first + row + r));
      source += kStep * stride;
    }
  } else {
    copy_tile<kRows, kColumns, kThreads, kAlign>(
        tile, thread, [&](int r, auto piece) { piece(head + (first + r) * stride, valid(first + r)); });
  }
}

// The first `count` of eight elements, then zeros; none where count is not positive.
template <int kAlign>
__device__ inline void copy_part(char* destination, const u16* source, int count) {
  if constexpr (kAlign >= 16) {
    cp_async_16_bytes(shared_address(destination), source, 2 * max(0, min(8, count)));
  } else {
    u32 words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) words[i / 2] |= static_cast<u32>(source[i]) << (i % 2 * 16);
    }
    *reinterpret_cast<uint4*>(destination) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Keys first .. first + kKeys of one head that lies transposed: kHeadDim rows at a constant stride, keys valid below
// kv_len.
template <int kKeys, int kHeadDim, int kThreads, int kAlign>
__device__ inline void copy_transposed_keys(char* tile, int thread, const u16* head, long long stride, int first,
                                            int kv_len) {
  constexpr int kPieces = kKeys / 8;
  constexpr int kTotal = kHeadDim * kPieces;
  if constexpr (kThreads % kPieces == 0 && kHeadDim % (kThreads / kPieces) == 0) {
    // Every thread keeps its keys: one running pointer, and one count of them.
    constexpr int kStep = kThreads / kPieces;
    const int row = thread / kPieces, key = first + thread % kPieces * 8;
    const u16* source = head + row * stride + key;
    char* destination = tile + row * row_pitch(kKeys) + thread % kPieces * 16;
#pragma unroll
    for (int r = 0; r < kHeadDim; r += kStep) {
      copy_part<kAlign>(destination + r * row_pitch(kKeys), source, kv_len - key);
      source += kStep * stride;
    }
  } else {
#pragma unroll
    for (int start = 0; start < kTotal; start += kThreads) {
      const int i = start + thread;
      if (kTotal % kThreads != 0 && i >= kTotal) break;
      const int r = i / kPieces, key = first + i % kPieces * 8;
      copy_part<kAlign>(tile + r * row_pitch(kKeys) + i % kPieces * 16, head + r * stride + key, kv_len - key);
    }
  }
}

// Stores one 16-byte piece of a finished row.
template <int kAlign>
__device__ inline void store_piece(u16* destination, uint4 value) {
  if constexpr (kAlign >= 16) {
    *reinterpret_cast<uint4*>(destination) = value;
  } else {
    const u32 words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) destination[i] = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
  }
}

}  // namespace gqa

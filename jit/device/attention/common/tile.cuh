// tile.cuh: moving tiles between global and shared memory.
// Owns: the row pitch, the copy of a tile's rows in 16-byte pieces (or element by element where alignment rules vectors
// out), zero-filled past the tensor's end, and the store of finished rows.
// Never: waits; the family's kernel owns the pipeline.
// Threads: `kThreads` threads, numbered by `thread`, share a copy.
#pragma once

#include "ptx/cp_async.cuh"

namespace gqa {

// Bytes between rows: one 16-byte pad keeps the eight rows of an ldmatrix in different bank groups.
template <typename Bits>
__host__ __device__ constexpr int row_pitch(int columns) {
  return static_cast<int>(sizeof(Bits)) * columns + 16;
}

// Elements of a word and of a 16-byte piece.
template <typename Bits>
constexpr int kAWord = 4 / static_cast<int>(sizeof(Bits));
template <typename Bits>
constexpr int kPiece = 4 * kAWord<Bits>;

// Element i of several, where it lies in its word; a word of elements, and an element of words.
template <typename Bits>
__device__ inline u32 placed(Bits bits, int i) {
  return static_cast<u32>(bits) << (i % kAWord<Bits> * 8 * static_cast<int>(sizeof(Bits)));
}
template <typename Bits>
__device__ inline u32 word_of(const Bits* elements) {
  u32 word = elements[0];
#pragma unroll
  for (int i = 1; i < kAWord<Bits>; ++i) word |= placed(elements[i], i);
  return word;
}
template <typename Bits>
__device__ inline Bits element_of(const u32* words, int i) {
  return static_cast<Bits>(words[i / kAWord<Bits>] >> (i % kAWord<Bits> * 8 * static_cast<int>(sizeof(Bits))));
}

// What leaves L2 first: no line before another, or those of a tensor that is read once before those of others.
enum class Eviction { kNormal, kFirst };

// Copies one 16-byte piece, or zeros. kAlign is what every row of the tensor is aligned to.
template <int kAlign, Eviction kEviction, typename Bits>
__device__ inline void copy_piece(char* destination, const Bits* source, bool valid) {
  if constexpr (kAlign >= 16 && kEviction == Eviction::kFirst) {
    cp_async_16_once(shared_address(destination), source, valid);
  } else if constexpr (kAlign >= 16) {
    cp_async_16(shared_address(destination), source, valid);
  } else {
    u32 words[4] = {0, 0, 0, 0};
    if (valid) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = word_of(source + i * kAWord<Bits>);
    }
    *reinterpret_cast<uint4*>(destination) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Copies kRows x kColumns elements; row(r) gives the address of row r, or null where it lies past the end.
template <typename Bits, int kRows, int kColumns, int kThreads, int kAlign, Eviction kEviction = Eviction::kNormal,
          typename RowAddress>
__device__ inline void copy_tile(char* tile, int thread, RowAddress row) {
  constexpr int kPieces = kColumns / kPiece<Bits>;
  constexpr int kTotal = kRows * kPieces;
#pragma unroll
  for (int start = 0; start < kTotal; start += kThreads) {
    const int i = start + thread;
    if (kTotal % kThreads != 0 && i >= kTotal) break;
    const int r = i / kPieces, c = i % kPieces;
    row(r, [&](const Bits* source, bool valid) {
      copy_piece<kAlign, kEviction>(tile + r * row_pitch<Bits>(kColumns) + c * 16, source + c * kPiece<Bits>, valid);
    });
  }
}

// Keys below `end`, and keys from `begin` on and below `end`: which of a block are loaded; zeros come for the others.
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
template <int kRows, int kColumns, int kThreads, int kAlign, Eviction kEviction, typename Bits, typename Valid>
__device__ inline void copy_keys(char* tile, int thread, const Bits* head, long long stride, int first, Valid valid) {
  constexpr int kPieces = kColumns / kPiece<Bits>;
  if constexpr (kThreads % kPieces == 0 && kRows % (kThreads / kPieces) == 0) {
    // Every thread keeps its column: one running pointer instead of a multiplication (and its registers) a row.
    constexpr int kStep = kThreads / kPieces;
    const int row = thread / kPieces;
    const Bits* source = head + (first + row) * stride + thread % kPieces * kPiece<Bits>;
    char* destination = tile + row * row_pitch<Bits>(kColumns) + thread % kPieces * 16;
#pragma unroll
    for (int r = 0; r < kRows; r += kStep) {
      copy_piece<kAlign, kEviction>(destination + r * row_pitch<Bits>(kColumns), source, valid(first + row + r));
      source += kStep * stride;
    }
  } else {
    copy_tile<Bits, kRows, kColumns, kThreads, kAlign, kEviction>(
        tile, thread, [&](int r, auto piece) { piece(head + (first + r) * stride, valid(first + r)); });
  }
}

// The first `count` elements of a piece, then zeros; none where count is not positive.
template <int kAlign, typename Bits>
__device__ inline void copy_part(char* destination, const Bits* source, int count) {
  if constexpr (kAlign >= 16) {
    cp_async_16_bytes(shared_address(destination), source,
                      static_cast<int>(sizeof(Bits)) * max(0, min(kPiece<Bits>, count)));
  } else {
    u32 words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kPiece<Bits>; ++i) {
      if (i < count) words[i / kAWord<Bits>] |= placed(source[i], i);
    }
    *reinterpret_cast<uint4*>(destination) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Keys first .. first + kKeys of one head that lies transposed: kHeadDim rows at a constant stride, keys valid below
// kv_len.
template <int kKeys, int kHeadDim, int kThreads, int kAlign, typename Bits>
__device__ inline void copy_transposed_keys(char* tile, int thread, const Bits* head, long long stride, int first,
                                            int kv_len) {
  constexpr int kPieces = kKeys / kPiece<Bits>;
  constexpr int kTotal = kHeadDim * kPieces;
  if constexpr (kThreads % kPieces == 0 && kHeadDim % (kThreads / kPieces) == 0) {
    // Every thread keeps its keys: one running pointer, and one count of them.
    constexpr int kStep = kThreads / kPieces;
    const int row = thread / kPieces, key = first + thread % kPieces * kPiece<Bits>;
    const Bits* source = head + row * stride + key;
    char* destination = tile + row * row_pitch<Bits>(kKeys) + thread % kPieces * 16;
#pragma unroll
    for (int r = 0; r < kHeadDim; r += kStep) {
      copy_part<kAlign>(destination + r * row_pitch<Bits>(kKeys), source, kv_len - key);
      source += kStep * stride;
    }
  } else {
#pragma unroll
    for (int start = 0; start < kTotal; start += kThreads) {
      const int i = start + thread;
      if (kTotal % kThreads != 0 && i >= kTotal) break;
      const int r = i / kPieces, key = first + i % kPieces * kPiece<Bits>;
      copy_part<kAlign>(tile + r * row_pitch<Bits>(kKeys) + i % kPieces * 16, head + r * stride + key, kv_len - key);
    }
  }
}

// Stores one 16-byte piece of a finished row.
template <int kAlign, typename Bits>
__device__ inline void store_piece(Bits* destination, uint4 value) {
  if constexpr (kAlign >= 16) {
    *reinterpret_cast<uint4*>(destination) = value;
  } else {
    const u32 words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int i = 0; i < kPiece<Bits>; ++i) destination[i] = element_of<Bits>(words, i);
  }
}

}  // namespace gqa

// head_rows.cuh: rows of heads, copied and rotated from one place to another: Su et al., "RoFormer", 2021, for the
// rotation.
// Owns: the copy of a row's heads by a warp, in vectors of 16 bytes where they lie so, else element by element; the
// rotation of a pair, in float32.
// Never: decides where a row goes or by which position it is rotated.
// Threads: a warp some heads of a row, its lanes side by side on as many as they reach; warps share nothing.
#pragma once

#include "append/new_tokens.h"
#include "ptx/element.cuh"

namespace gqa {

constexpr int kVectorBytes = 16;
template <typename Bits>
constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(Bits));  // elements

__device__ inline bool is_aligned(u64 bytes) { return bytes % kVectorBytes == 0; }

// A row of some heads, where they are and where they go.
template <typename Bits>
struct HeadRows {
  const Bits* from;
  Bits* to;
  long long from_stride, to_stride;  // from head to head
  int heads;

  __device__ bool aligned() const {
    return is_aligned(reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to) |
                      static_cast<u64>(from_stride * sizeof(Bits)) | static_cast<u64>(to_stride * sizeof(Bits)));
  }
};

// The i-th of some elements in words, and the i-th word of some elements.
template <typename Bits>
__device__ inline Bits element_in_words(const u32* words, int i) {
  if constexpr (sizeof(Bits) == 4)
    return words[i];
  else
    return static_cast<Bits>(words[i / 2] >> (i % 2 * 16));
}
__device__ inline u32 word_of_elements(const u16* elements, int i) {
  return elements[2 * i] | static_cast<u32>(elements[2 * i + 1]) << 16;
}
__device__ inline u32 word_of_elements(const u32* elements, int i) { return elements[i]; }

// kWidth elements: 1 or a piece.
template <int kWidth, typename Bits>
__device__ inline void load_elements(const Bits* from, Bits* elements) {
  if constexpr (kWidth == 1) {
    elements[0] = *from;
  } else {
    const uint4 piece = *reinterpret_cast<const uint4*>(from);
    const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < kVector<Bits>; ++i) elements[i] = element_in_words<Bits>(words, i);
  }
}

template <int kWidth, typename Bits>
__device__ inline void store_elements(const Bits* elements, Bits* to) {
  if constexpr (kWidth == 1) {
    *to = elements[0];
  } else {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = word_of_elements(elements, i);
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// What a lane takes of so many pieces of each head: from `piece` on every `pieces_apart`-th, of the heads from `head`
// on every `heads_apart`-th. Lanes that do not reach a whole head more take none.
struct LaneShare {
  int pieces_apart, heads_apart, piece, head;
  __device__ LaneShare(int pieces, int lane)
      : pieces_apart(min(pieces, 32)),
        heads_apart(32 / pieces_apart),
        piece(lane % pieces_apart),
        head(lane / pieces_apart) {
    if (head >= heads_apart) piece = pieces;
  }
};

template <int kWidth, typename Bits>
__device__ void copy_heads(const HeadRows<Bits>& rows, int first, int columns, int lane) {
  const int pieces = (columns - first) / kWidth;
  if (pieces <= 0) return;
  const LaneShare share(pieces, lane);
#pragma unroll 1
  for (int piece = share.piece; piece < pieces; piece += share.pieces_apart) {
    const int column = first + piece * kWidth;
#pragma unroll 1
    for (int head = share.head; head < rows.heads; head += share.heads_apart) {
      Bits elements[kWidth];
      load_elements<kWidth>(rows.from + head * rows.from_stride + column, elements);
      store_elements<kWidth>(elements, rows.to + head * rows.to_stride + column);
    }
  }
}

// Columns [first, columns) of each head; head dims are whole pieces.
template <typename Bits>
__device__ inline void copy_columns(const HeadRows<Bits>& rows, int first, int columns, int lane) {
  if (rows.aligned() && first % kVector<Bits> == 0)
    copy_heads<kVector<Bits>>(rows, first, columns, lane);
  else
    copy_heads<1>(rows, first, columns, lane);
}

// By which angles a row's first 2 * pairs elements are rotated.
template <typename Bits>
struct Rotation {
  const Bits *cos, *sin;
  int pairs;

  __device__ Rotation(const NewTokens& t, int position) : pairs(t.rotary_dim / 2) {
    const int row = rotary_row(t, position);
    cos = static_cast<const Bits*>(t.cos) + row * t.cos_stride;
    sin = static_cast<const Bits*>(t.sin) + row * t.sin_stride;
  }
  __device__ bool aligned() const {
    return pairs % kVector<Bits> == 0 && is_aligned(reinterpret_cast<u64>(cos) | reinterpret_cast<u64>(sin));
  }
};

// The angles of kWidth pairs, from pair `first` on.
template <int kWidth, typename Bits>
struct Angles {
  Bits cos[kWidth], sin[kWidth];
  __device__ Angles(const Rotation<Bits>& r, int first) {
    load_elements<kWidth>(r.cos + first, cos);
    load_elements<kWidth>(r.sin + first, sin);
  }
};

// kWidth pairs of a head, of elements from `one` and from `other` on. Pair i is (2 i, 2 i + 1) where interleaved, else
// (i, i + pairs). Rounded as written, so that all widths give the same bits.
template <typename Element, bool kInterleaved, int kWidth>
__device__ inline void rotate_pairs(const Angles<kWidth, typename Element::Bits>& angles,
                                    const typename Element::Bits* from, typename Element::Bits* to, int one,
                                    int other) {
  using Bits = typename Element::Bits;
  Bits row[2 * kWidth];
  load_elements<kWidth>(from + one, row);
  load_elements<kWidth>(from + other, row + kWidth);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    Bits &a = row[kInterleaved ? 2 * i : i], &b = row[kInterleaved ? 2 * i + 1 : i + kWidth];
    const float x = Element::to_float(a), y = Element::to_float(b);
    const float cosine = Element::to_float(angles.cos[i]), sine = Element::to_float(angles.sin[i]);
    unpack(Element::pack(fmaf(x, cosine, -(y * sine)), fmaf(y, cosine, x * sine)), a, b);
  }
  store_elements<kWidth>(row, to + one);
  store_elements<kWidth>(row + kWidth, to + other);
}

template <typename Element, bool kInterleaved, int kWidth>
__device__ void rotate_heads(const Rotation<typename Element::Bits>& r, const HeadRows<typename Element::Bits>& rows,
                             int lane) {
  const int pieces = r.pairs / kWidth;
  const LaneShare share(pieces, lane);
#pragma unroll 1
  for (int piece = share.piece; piece < pieces; piece += share.pieces_apart) {
    const int first = piece * kWidth;
    const int one = kInterleaved ? 2 * first : first, other = kInterleaved ? one + kWidth : first + r.pairs;
    const Angles<kWidth, typename Element::Bits> angles(r, first);
#pragma unroll 1
    for (int head = share.head; head < rows.heads; head += share.heads_apart)
      rotate_pairs<Element, kInterleaved, kWidth>(angles, rows.from + head * rows.from_stride,
                                                  rows.to + head * rows.to_stride, one, other);
  }
}

template <typename Element, bool kInterleaved>
__device__ void rotate(const Rotation<typename Element::Bits>& r, const HeadRows<typename Element::Bits>& rows,
                       int lane) {
  if (r.aligned() && rows.aligned())
    rotate_heads<Element, kInterleaved, kVector<typename Element::Bits>>(r, rows, lane);
  else
    rotate_heads<Element, kInterleaved, 1>(r, rows, lane);
}

}  // namespace gqa

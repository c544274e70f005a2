// append.cuh: the kernel that runs before attention on a cache: new keys and values go into it, rotated or not, queries
// are rotated into a copy, and the lists say how many keys each sequence has then. Su et al., "RoFormer", 2021, for the
// rotation. Owns: the copy of a row's heads by a warp, in pieces of 16 bytes where they lie so, else element by
// element; in float32 where it is rotated. Never: attends; decides where a row goes (append_params.h does). Threads: a
// warp some heads of a row, its lanes side by side on as many as they reach; warps share nothing.
#pragma once

#include "append/append_params.h"
#include "ptx/element.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

constexpr int kPiece = 8;  // elements in 16 bytes

__device__ inline bool is_aligned(u64 bytes) { return bytes % (2 * kPiece) == 0; }

// A row of some heads, where they are and where they go.
struct HeadRows {
  const u16* from;
  u16* to;
  long long from_stride, to_stride;  // from head to head
  int heads;

  __device__ bool aligned() const {
    return is_aligned(reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to) | static_cast<u64>(2 * from_stride) |
                      static_cast<u64>(2 * to_stride));
  }
};

// kWidth elements: 1 or a piece.
template <int kWidth>
__device__ inline void load_elements(const u16* from, u16* elements) {
  if constexpr (kWidth == 1) {
    elements[0] = *from;
  } else {
    const uint4 piece = *reinterpret_cast<const uint4*>(from);
    const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < kPiece; ++i) elements[i] = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
  }
}

template <int kWidth>
__device__ inline void store_elements(const u16* elements, u16* to) {
  if constexpr (kWidth == 1) {
    *to = elements[0];
  } else {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = elements[2 * i] | static_cast<u32>(elements[2 * i + 1]) << 16;
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

template <int kWidth>
__device__ void copy_heads(const HeadRows& rows, int first, int columns, int lane) {
  const int pieces = (columns - first) / kWidth;
  if (pieces <= 0) return;
  const LaneShare share(pieces, lane);
#pragma unroll 1
  for (int piece = share.piece; piece < pieces; piece += share.pieces_apart) {
    const int column = first + piece * kWidth;
#pragma unroll 1
    for (int head = share.head; head < rows.heads; head += share.heads_apart) {
      u16 elements[kWidth];
      load_elements<kWidth>(rows.from + head * rows.from_stride + column, elements);
      store_elements<kWidth>(elements, rows.to + head * rows.to_stride + column);
    }
  }
}

// Columns [first, columns) of each head; head dims are whole pieces.
__device__ inline void copy_columns(const HeadRows& rows, int first, int columns, int lane) {
  if (rows.aligned() && first % kPiece == 0)
    copy_heads<kPiece>(rows, first, columns, lane);
  else
    copy_heads<1>(rows, first, columns, lane);
}

// By which angles a row's first 2 * pairs elements are rotated.
struct Rotation {
  const u16 *cos, *sin;
  int pairs;

  __device__ Rotation(const AppendParams& p, int position) : pairs(p.rotary_dim / 2) {
    const int row = rotary_row(p, position);
    cos = static_cast<const u16*>(p.cos) + row * p.cos_stride;
    sin = static_cast<const u16*>(p.sin) + row * p.sin_stride;
  }
  __device__ bool aligned() const {
    return pairs % kPiece == 0 && is_aligned(reinterpret_cast<u64>(cos) | reinterpret_cast<u64>(sin));
  }
};

// The angles of kWidth pairs, from pair `first` on.
template <int kWidth>
struct Angles {
  u16 cos[kWidth], sin[kWidth];
  __device__ Angles(const Rotation& r, int first) {
    load_elements<kWidth>(r.cos + first, cos);
    load_elements<kWidth>(r.sin + first, sin);
  }
};

// kWidth pairs of a head, of elements from `one` and from `other` on. Pair i is (2 i, 2 i + 1) where interleaved, else
// (i, i + pairs). Rounded as written, so that all widths give the same bits.
template <typename Element, bool kInterleaved, int kWidth>
__device__ inline void rotate_pairs(const Angles<kWidth>& angles, const u16* from, u16* to, int one, int other) {
  u16 row[2 * kWidth];
  load_elements<kWidth>(from + one, row);
  load_elements<kWidth>(from + other, row + kWidth);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    u16 &a = row[kInterleaved ? 2 * i : i], &b = row[kInterleaved ? 2 * i + 1 : i + kWidth];
    const float x = Element::to_float(a), y = Element::to_float(b);
    const float cosine = Element::to_float(angles.cos[i]), sine = Element::to_float(angles.sin[i]);
    const u32 packed = Element::pack(fmaf(x, cosine, -(y * sine)), fmaf(y, cosine, x * sine));
    a = static_cast<u16>(packed);
    b = static_cast<u16>(packed >> 16);
  }
  store_elements<kWidth>(row, to + one);
  store_elements<kWidth>(row + kWidth, to + other);
}

template <typename Element, bool kInterleaved, int kWidth>
__device__ void rotate_heads(const Rotation& r, const HeadRows& rows, int lane) {
  const int pieces = r.pairs / kWidth;
  const LaneShare share(pieces, lane);
#pragma unroll 1
  for (int piece = share.piece; piece < pieces; piece += share.pieces_apart) {
    const int first = piece * kWidth;
    const int one = kInterleaved ? 2 * first : first, other = kInterleaved ? one + kWidth : first + r.pairs;
    const Angles<kWidth> angles(r, first);
#pragma unroll 1
    for (int head = share.head; head < rows.heads; head += share.heads_apart)
      rotate_pairs<Element, kInterleaved, kWidth>(angles, rows.from + head * rows.from_stride,
                                                  rows.to + head * rows.to_stride, one, other);
  }
}

template <typename Element, bool kInterleaved>
__device__ void rotate(const Rotation& r, const HeadRows& rows, int lane) {
  if (r.aligned() && rows.aligned())
    rotate_heads<Element, kInterleaved, kPiece>(r, rows, lane);
  else
    rotate_heads<Element, kInterleaved, 1>(r, rows, lane);
}

template <typename Element>
__device__ void rotate(const AppendParams& p, const HeadRows& rows, int position, int lane) {
  const Rotation rotation(p, position);
  if (p.interleaved)
    rotate<Element, true>(rotation, rows, lane);
  else
    rotate<Element, false>(rotation, rows, lane);
}

__device__ inline void write_rotated(const AppendParams& p, const HeadRows& rows, int position, int lane) {
  if (p.rotary_dim > 0 && p.bf16) rotate<BF16>(p, rows, position, lane);
  if (p.rotary_dim > 0 && !p.bf16) rotate<F16>(p, rows, position, lane);
  copy_columns(rows, p.rotary_dim, p.head_dim, lane);
}

// What a warp does. No heads: nothing.
struct AppendWork {
  HeadRows rows, values;  // values: of keys
  int position;           // by which rows are rotated
};

// For a group of heads of a row of q.
__device__ inline AppendWork query_work(const AppendParams& p, int row, int group) {
  const AppendPlace place = place_of_row(p.q_starts, p.batch, row, p.q_len);
  if (place.sequence < 0 || (p.q_lengths != nullptr && place.at >= p.q_lengths[place.sequence])) return {};
  const int head = group * p.warp_heads;
  const HeadRows rows = {static_cast<const u16*>(p.q) + row_offset(p.q_strides, p.q_starts, place, row, head),
                         static_cast<u16*>(p.q_out) + row_offset(p.q_out_strides, p.q_starts, place, row, head),
                         p.q_strides.head, p.q_out_strides.head, heads_of_group(p, p.q_heads, group)};
  const int start = rotary_start(p, place.sequence, append_sequence(p, place.sequence));
  return {rows, {}, start + (p.advances ? place.at : 0)};
}

// For a group of heads of a row of the new keys, and of their values.
__device__ inline AppendWork key_work(const AppendParams& p, int row, int group) {
  const AppendPlace place = place_of_row(p.new_starts, p.batch, row, p.new_len);
  if (place.sequence < 0) return {};
  const AppendSequence s = append_sequence(p, place.sequence);
  if (place.at >= s.added) return {};
  const int head = group * p.warp_heads;
  const auto rows = [&](const void* from, const TensorStrides& strides, void* cache, const TensorStrides& slots) {
    return HeadRows{static_cast<const u16*>(from) + row_offset(strides, p.new_starts, place, row, head),
                    static_cast<u16*>(cache) + slot_offset(p, slots, s.row, s.cached + place.at) + head * slots.head,
                    strides.head, slots.head, heads_of_group(p, p.kv_heads, group)};
  };
  return {rows(p.k_new, p.k_new_strides, p.k, p.k_strides), rows(p.v_new, p.v_new_strides, p.v, p.v_strides),
          rotary_start(p, place.sequence, s) + place.at};
}

// The grid writes the table together. Entries that no key needs are left as they are.
__device__ inline void append_table(const AppendParams& p) {
  const long long entries = static_cast<long long>(p.batch) * p.out_columns;
  for (long long i = static_cast<long long>(blockIdx.x) * kAppendThreads + threadIdx.x; i < entries;
       i += static_cast<long long>(gridDim.x) * kAppendThreads) {
    const int sequence = static_cast<int>(i / p.out_columns);
    const int entry = out_entry(p, append_sequence(p, sequence), static_cast<int>(i % p.out_columns));
    if (entry >= 0) p.out_table[i] = entry;
  }
}

}  // namespace gqa

extern "C" __global__ void __launch_bounds__(gqa::kAppendThreads, 7)
    gqa_append(const __grid_constant__ gqa::AppendParams p) {
  using namespace gqa;
  let_next_grid_begin();
  wait_for_grids_before();
  const u32 thread = blockIdx.x * kAppendThreads + threadIdx.x;
  if (thread < static_cast<u32>(p.batch)) write_lists(p, static_cast<int>(thread));
  if (p.out_table != nullptr) append_table(p);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const u32 item = blockIdx.x * (kAppendThreads / 32) + threadIdx.x / 32, q_groups = append_groups(p, p.q_heads),
            kv_groups = append_groups(p, p.kv_heads),
            queries = p.q == nullptr ? 0 : static_cast<u32>(p.q_rows) * q_groups;
  AppendWork work = {};
  if (item < queries) {
    work = query_work(p, static_cast<int>(item / q_groups), static_cast<int>(item % q_groups));
  } else if (item - queries < static_cast<u32>(p.new_rows) * kv_groups) {
    const u32 key = item - queries;
    work = key_work(p, static_cast<int>(key / kv_groups), static_cast<int>(key % kv_groups));
  }
  write_rotated(p, work.rows, work.position, lane);
  copy_columns(work.values, 0, p.head_dim_v, lane);
}

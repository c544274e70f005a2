// append.cuh: the kernel that runs before attention on a cache: new keys and values go into it, rotated or not, queries
// are rotated into a copy, and the lists say how many keys each sequence has then. Su et al., "RoFormer", 2021, for the
// rotation. Owns: the copy of one row by a warp, in float32 where it is rotated. Never: attends; decides where a row
// goes (append_params.h does). Threads: a warp a row of a head; warps share nothing.
#pragma once

#include "append/append_params.h"
#include "ptx/element.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

// Pair i of a row's first rotary_dim elements is (2 i, 2 i + 1), or (i, i + rotary_dim / 2).
template <typename Element>
__device__ void rotate_pairs(const AppendParams& p, const u16* from, u16* to, int row, int lane) {
  const int pairs = p.rotary_dim / 2;
  const u16* cos = static_cast<const u16*>(p.cos) + row * p.cos_stride;
  const u16* sin = static_cast<const u16*>(p.sin) + row * p.sin_stride;
  for (int i = lane; i < pairs; i += 32) {
    const int first = p.interleaved ? 2 * i : i, second = p.interleaved ? 2 * i + 1 : i + pairs;
    const float x = Element::to_float(from[first]), y = Element::to_float(from[second]);
    const float c = Element::to_float(cos[i]), s = Element::to_float(sin[i]);
    const u32 packed = Element::pack(x * c - y * s, x * s + y * c);
    to[first] = static_cast<u16>(packed);
    to[second] = static_cast<u16>(packed >> 16);
  }
}

__device__ inline void copy_columns(const u16* from, u16* to, int first, int columns, int lane) {
  for (int i = first + lane; i < columns; i += 32) to[i] = from[i];
}

__device__ inline void write_rotated(const AppendParams& p, const u16* from, u16* to, int position, int lane) {
  const int row = rotary_row(p, position);
  if (p.rotary_dim > 0 && p.bf16) rotate_pairs<BF16>(p, from, to, row, lane);
  if (p.rotary_dim > 0 && !p.bf16) rotate_pairs<F16>(p, from, to, row, lane);
  copy_columns(from, to, p.rotary_dim, p.head_dim, lane);
}

// A head's row of q.
__device__ inline void append_query(const AppendParams& p, int row, int head, int lane) {
  const AppendPlace place = place_of_row(p.q_starts, p.batch, row, p.q_len);
  if (place.sequence < 0 || (p.q_lengths != nullptr && place.at >= p.q_lengths[place.sequence])) return;
  const u16* from = static_cast<const u16*>(p.q) + row_offset(p.q_strides, p.q_starts, place, row, head);
  u16* to = static_cast<u16*>(p.q_out) + row_offset(p.q_out_strides, p.q_starts, place, row, head);
  const int start = rotary_start(p, place.sequence, append_sequence(p, place.sequence));
  write_rotated(p, from, to, start + (p.advances ? place.at : 0), lane);
}

// A head's row of the new keys, and of their values.
__device__ inline void append_key(const AppendParams& p, int row, int head, int lane) {
  const AppendPlace place = place_of_row(p.new_starts, p.batch, row, p.new_len);
  if (place.sequence < 0) return;
  const AppendSequence s = append_sequence(p, place.sequence);
  if (place.at >= s.added) return;
  const auto source = [&](const void* tensor, const TensorStrides& strides) {
    return static_cast<const u16*>(tensor) + row_offset(strides, p.new_starts, place, row, head);
  };
  const auto slot = [&](void* tensor, const TensorStrides& strides) {
    return static_cast<u16*>(tensor) + slot_offset(p, strides, s.row, s.cached + place.at) + head * strides.head;
  };
  write_rotated(p, source(p.k_new, p.k_new_strides), slot(p.k, p.k_strides),
                rotary_start(p, place.sequence, s) + place.at, lane);
  copy_columns(source(p.v_new, p.v_new_strides), slot(p.v, p.v_strides), 0, p.head_dim_v, lane);
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

extern "C" __global__ void __launch_bounds__(gqa::kAppendThreads, 8)
    gqa_append(const __grid_constant__ gqa::AppendParams p) {
  using namespace gqa;
  let_next_grid_begin();
  wait_for_grids_before();
  const u32 thread = blockIdx.x * kAppendThreads + threadIdx.x;
  if (thread < static_cast<u32>(p.batch)) write_lists(p, static_cast<int>(thread));
  if (p.out_table != nullptr) append_table(p);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const u32 item = blockIdx.x * (kAppendThreads / 32) + threadIdx.x / 32,
            queries = p.q == nullptr ? 0 : static_cast<u32>(p.q_rows) * p.q_heads;
  if (item < queries) {
    append_query(p, static_cast<int>(item / p.q_heads), static_cast<int>(item % p.q_heads), lane);
  } else if (item - queries < static_cast<u32>(p.new_rows) * p.kv_heads) {
    const u32 key = item - queries;
    append_key(p, static_cast<int>(key / p.kv_heads), static_cast<int>(key % p.kv_heads), lane);
  }
}

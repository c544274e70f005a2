// append.cuh: the kernel that runs before attention on a cache: new keys and values go into it, rotated or not, queries
// are rotated into a copy, and the lists say how many keys each sequence has then. Owns: which warp takes which heads
// of which row. Never: attends; decides where a row goes (append_params.h does). Threads: a warp some heads of a row;
// warps share nothing.
#pragma once

#include "append/append_params.h"
#include "append/head_rows.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

template <typename Element>
__device__ void rotate(const AppendParams& p, const HeadRows<typename Element::Bits>& rows, int position, int lane) {
  const Rotation<typename Element::Bits> rotation(p.tokens, position);
  if (p.tokens.interleaved)
    rotate<Element, true>(rotation, rows, lane);
  else
    rotate<Element, false>(rotation, rows, lane);
}

__device__ inline void rotate_row(const AppendParams& p, const HeadRows<u16>& rows, int position, int lane) {
  if (static_cast<ElementType>(p.type) == ElementType::kBF16) rotate<BF16>(p, rows, position, lane);
  if (static_cast<ElementType>(p.type) == ElementType::kF16) rotate<F16>(p, rows, position, lane);
}
__device__ inline void rotate_row(const AppendParams& p, const HeadRows<u32>& rows, int position, int lane) {
  rotate<F32>(p, rows, position, lane);
}

template <typename Bits>
__device__ inline void write_rotated(const AppendParams& p, const HeadRows<Bits>& rows, int position, int lane) {
  if (p.tokens.rotary_dim > 0) rotate_row(p, rows, position, lane);
  copy_columns(rows, p.tokens.rotary_dim, p.head_dim, lane);
}

// CTAs an SM: of compute capability 10.0 on, 64 registers a thread would not do.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kAppendCtas = 7;
#else
constexpr int kAppendCtas = 8;
#endif

// What a warp does. No heads: nothing.
template <typename Bits>
struct AppendWork {
  HeadRows<Bits> rows, values;  // values: of keys
  int position;                 // by which rows are rotated
};

// For a group of heads of a row of q.
template <typename Bits>
__device__ inline AppendWork<Bits> query_work(const AppendParams& p, int row, int group) {
  const AppendPlace place = place_of_row(p.q_starts, p.batch, row, p.q_len);
  if (place.sequence < 0 || (p.q_lengths != nullptr && place.at >= p.q_lengths[place.sequence])) return {};
  const int head = group * p.warp_heads;
  const HeadRows<Bits> rows = {static_cast<const Bits*>(p.q) + row_offset(p.q_strides, p.q_starts, place, row, head),
                               static_cast<Bits*>(p.q_out) + row_offset(p.q_out_strides, p.q_starts, place, row, head),
                               p.q_strides.head, p.q_out_strides.head, heads_of_group(p, p.q_heads, group)};
  const int start = rotary_start(p.tokens, place.sequence, append_sequence(p, place.sequence).cached);
  return {rows, {}, start + (p.tokens.advances ? place.at : 0)};
}

// For a group of heads of a row of the new keys, and of their values.
template <typename Bits>
__device__ inline AppendWork<Bits> key_work(const AppendParams& p, int row, int group) {
  const AppendPlace place = place_of_row(p.new_starts, p.batch, row, p.tokens.count);
  if (place.sequence < 0) return {};
  const AppendSequence s = append_sequence(p, place.sequence);
  if (place.at >= s.added) return {};
  const int head = group * p.warp_heads;
  const auto rows = [&](const void* from, const TensorStrides& strides, void* cache, const TensorStrides& slots) {
    return HeadRows<Bits>{
        static_cast<const Bits*>(from) + row_offset(strides, p.new_starts, place, row, head),
        static_cast<Bits*>(cache) + slot_offset(p, slots, s.row, s.cached + place.at) + head * slots.head, strides.head,
        slots.head, heads_of_group(p, p.kv_heads, group)};
  };
  return {rows(p.tokens.k, p.tokens.k_strides, p.k, p.k_strides),
          rows(p.tokens.v, p.tokens.v_strides, p.v, p.v_strides),
          rotary_start(p.tokens, place.sequence, s.cached) + place.at};
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

template <typename Bits>
__device__ inline void append(const AppendParams& p) {
  let_next_grid_begin();
  wait_for_grids_before();
  const u32 thread = blockIdx.x * kAppendThreads + threadIdx.x;
  if (thread < static_cast<u32>(p.batch)) write_lists(p, static_cast<int>(thread));
  if (p.out_table != nullptr) append_table(p);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const u32 item = blockIdx.x * (kAppendThreads / 32) + threadIdx.x / 32, q_groups = append_groups(p, p.q_heads),
            kv_groups = append_groups(p, p.kv_heads),
            queries = p.q == nullptr ? 0 : static_cast<u32>(p.q_rows) * q_groups;
  AppendWork<Bits> work = {};
  if (item < queries) {
    work = query_work<Bits>(p, static_cast<int>(item / q_groups), static_cast<int>(item % q_groups));
  } else if (item - queries < static_cast<u32>(p.new_rows) * kv_groups) {
    const u32 key = item - queries;
    work = key_work<Bits>(p, static_cast<int>(key / kv_groups), static_cast<int>(key % kv_groups));
  }
  write_rotated(p, work.rows, work.position, lane);
  copy_columns(work.values, 0, p.head_dim_v, lane);
}

}  // namespace gqa

extern "C" __global__ void __launch_bounds__(gqa::kAppendThreads, gqa::kAppendCtas)
    gqa_append(const __grid_constant__ gqa::AppendParams p) {
  if (static_cast<gqa::ElementType>(p.type) == gqa::ElementType::kF32)
    gqa::append<gqa::u32>(p);
  else
    gqa::append<gqa::u16>(p);
}

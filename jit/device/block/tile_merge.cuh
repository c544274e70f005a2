// tile_merge.cuh: what thread blocks that share a loop have of its sums: each hands over those of its warps' parts
// through global memory, the last one to arrive (arrival.cuh) adds up what all have.
// Owns: hand_over(), take_over().
// Never: waits for another thread block, or depends on the order in which they arrive.
// Threads: all threads of the block call together.
#pragma once

#include "attention/common/arrival.cuh"
#include "block/tile_buffer.cuh"
#include "block/tile_lanes.cuh"

namespace gqa {

// PTX ISA 9.7.9.11, st.
__device__ inline void store_16(float* to, float a, float b, float c, float d) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// To global memory, for other thread blocks. Spelled out, since the compiler takes a vector store apart here.
template <int kCount>
__device__ inline void put_row_for_others(float* to, const float (&from)[kCount]) {
  if constexpr (kCount == 4) {
    store_16(to, from[0], from[1], from[2], from[3]);
  } else {
    *to = from[0];
  }
}

// From global memory that other thread blocks wrote: past L1.
template <int kCount>
__device__ inline void get_row_of_others(float (&to)[kCount], const float* from) {
  if constexpr (kCount == 4) {
    set_row(to, __ldcg(reinterpret_cast<const uint4*>(from)));
  } else {
    to[0] = __ldcg(from);
  }
}

// What a thread block hands over: the sums of its warps' parts, row after row.
template <int kThreads, int kCopies, typename Buffer>
__device__ inline void hand_over(float* to, Buffer parts) {
  constexpr int kTogether = Buffer::kColumns % 4 == 0 ? 4 : 1, kElements = Buffer::kRows * Buffer::kColumns;
  each_of<kThreads, kElements, kTogether>([&](int i) {
    float sum[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) sum[j] = 0.f;
#pragma unroll
    for (int copy = 0; copy < kCopies; ++copy) {
      float part[kTogether];
      get_row(part, parts.copy(copy).at(i / Buffer::kColumns, i % Buffer::kColumns));
#pragma unroll
      for (int j = 0; j < kTogether; ++j) sum[j] += part[j];
    }
    put_row_for_others(to + i, sum);
  });
}

// What all of them handed over, `stride` numbers apart, added up in their order. Many loads are on their way at a time:
// the thread block that does this is the last one.
template <int kThreads, int kSplits, typename Buffer>
__device__ inline void take_over(Buffer to, const float* from, int stride) {
  constexpr int kTogether = Buffer::kColumns % 4 == 0 ? 4 : 1, kElements = Buffer::kRows * Buffer::kColumns;
  each_of<kThreads, kElements, kTogether>([&](int i) {
    float part[kSplits][kTogether], sum[kTogether];
#pragma unroll
    for (int split = 0; split < kSplits; ++split) get_row_of_others(part[split], from + split * stride + i);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      sum[j] = 0.f;
#pragma unroll
      for (int split = 0; split < kSplits; ++split) sum[j] += part[split][j];
      to.put(i / Buffer::kColumns, i % Buffer::kColumns + j, sum[j]);
    }
  });
}

}  // namespace gqa

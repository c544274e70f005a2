// arrival.cuh: where thread blocks meet that each have a part of one result: the last one to arrive has all parts.
// Owns: the count of those that arrived, arrive_last() and the fence around it.
// Never: waits for another thread block.
// Threads: all threads of the block call together.
#pragma once

#include "element.cuh"

namespace gqa {

// PTX ISA 9.7.13.4, fence: what this thread wrote comes before what follows, for the GPU.
__device__ inline void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// One thread, for its part: whether the other parts were there before. The counter is then 0 again, for the next
// launch.
__device__ inline bool counts_last(u32* arrived, u32 parts) {
  const bool last = atomicAdd(arrived, 1u) == parts - 1;
  if (last) *arrived = 0;
  return last;
}

// After this block's threads wrote its part to global memory: whether the other blocks were there before it. last: a
// word of shared memory.
__device__ inline bool arrive_last(u32* arrived, u32 blocks, u32* last) {
  fence_gpu();  // each for what it wrote
  __syncthreads();
  if (threadIdx.x == 0) *last = counts_last(arrived, blocks) ? 1u : 0u;
  __syncthreads();
  if (*last == 0) return false;
  fence_gpu();
  return true;
}

}  // namespace gqa

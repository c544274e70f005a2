// arrival.cuh: where thread blocks meet that each have a part of one result: the last one to arrive has all parts.
// Owns: the count of those that arrived, what orders parts by it, arrive_last().
// Never: waits for another thread block.
// Threads: one calls counts_last(), all threads of the block call arrive_last() together.
#pragma once

#include "ptx/element.cuh"

namespace gqa {

// PTX ISA 9.7.13.5, atom: what this thread and those that it met at barriers did before is there for the GPU's threads
// that count later, and for those that these meet at barriers after.
__device__ inline u32 count_up(u32* counter) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// One thread, for the part of all that it met at a barrier: whether the other parts were there before. The counter is
// then 0 again, for the next launch.
__device__ inline bool counts_last(u32* arrived, u32 parts) {
  const bool last = count_up(arrived) == parts - 1;
  if (last) *arrived = 0;
  return last;
}

// After this block's threads wrote its part to global memory: whether the other blocks were there before it. last: a
// word of shared memory.
__device__ inline bool arrive_last(u32* arrived, u32 blocks, u32* last) {
  __syncthreads();
  if (threadIdx.x == 0) *last = counts_last(arrived, blocks) ? 1u : 0u;
  __syncthreads();
  return *last != 0;
}

}  // namespace gqa

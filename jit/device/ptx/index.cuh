// index.cuh: who this thread is, read anew at each call.
// Owns: volatile reads of the special registers (PTX ISA 10), so that addresses computed from them are not kept in
// registers across the main loop, which has none to spare; reading again costs a few cycles a block of keys.
// Never: used where threadIdx and blockIdx would do, outside the main loop.
// Threads: values.
#pragma once

namespace gqa {

__device__ inline int block_index() {
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}

__device__ inline int thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

__device__ inline int lane_index() {
  int index;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(index));
  return index;
}

// The same number, of which the compiler knows nothing: it computes anew what depends on it, and keeps no products.
__device__ inline int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

}  // namespace gqa

// warpgroup.cuh: four warps acting as one.
// Owns: the warpgroup's number, its registers (PTX ISA 9.7.19.5), the election of a lane, and named barriers among
// warpgroups (9.7.13.1).
// Never: touches memory.
// Threads: every call is made by whole warps.
#pragma once

#include "ptx/index.cuh"

namespace gqa {

constexpr int kWarpgroup = 128;

// The same in all lanes of a warp, and known to be by the compiler.
__device__ inline int warpgroup_index() { return __shfl_sync(0xffffffffu, thread_index() / kWarpgroup, 0); }

// 9.7.13.10, elect.sync: whether this is the lane that the warp elects.
__device__ inline bool elected() {
  int mine;
  asm volatile(
      "{\n"
      ".reg .pred leader;\n"
      "elect.sync _|leader, 0xffffffff;\n"
      "selp.s32 %0, 1, 0, leader;\n"
      "}"
      : "=r"(mine));
  return mine != 0;
}

// setmaxnreg: registers a thread of this warpgroup may use from here on; a multiple of 8.
template <int kRegisters>
__device__ inline void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// barrier.sync: among `threads` threads. Number 0 is __syncthreads.
__device__ inline void named_sync(int barrier, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// barrier.arrive: what this thread did before is seen by those that sync on the barrier; it does not wait.
__device__ inline void named_arrive(int barrier, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// barrier.red.and: whether `mine` holds in all of them.
__device__ inline bool named_all(int barrier, int threads, bool mine) {
  int all;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %3, 0;\n"
      "barrier.red.and.pred p, %1, %2, p;\n"
      "selp.s32 %0, 1, 0, p;\n"
      "}"
      : "=r"(all)
      : "r"(barrier), "r"(threads), "r"(static_cast<int>(mine))
      : "memory");
  return all != 0;
}

}  // namespace gqa

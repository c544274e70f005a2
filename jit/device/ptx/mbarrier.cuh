// mbarrier.cuh: barriers in shared memory that count arrivals and bytes.
// Owns: one wrapper for each mbarrier instruction (PTX ISA 9.7.13.15), and the fence that shows fresh ones to the copy
// engine and the cluster.
// Never: knows what a barrier guards; pipeline.cuh does.
// Threads: a barrier's phase flips when all expected arrivals and bytes are in; waiters name the parity they wait out.
#pragma once

#include "ptx/cp_async.cuh"

namespace gqa {

using Barrier = u64;

// 9.7.13.15.9, mbarrier.init.
__device__ inline void barrier_init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// 9.7.13.4, fence.mbarrier_init: makes initialised barriers visible to the cluster and the async proxy.
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// 9.7.13.15.13, mbarrier.arrive.
__device__ inline void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival of the warp's: 9.7.13.10, elect.sync picks the lane without holding a register for it.
__device__ inline void barrier_arrive_once(u32 barrier) {
  asm volatile(
      "{\n"
      ".reg .pred leader;\n"
      "elect.sync _|leader, 0xffffffff;\n"
      "@leader mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(barrier)
      : "memory");
}

// 9.7.13.15.13, mbarrier.arrive.expect_tx: arrives, and makes the phase wait for `bytes` more.
__device__ inline void barrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// 9.7.13.15.16, mbarrier.try_wait: until the phase of this parity is over. The instruction itself sleeps for a while.
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// 9.7.13.15.16, mbarrier.test_wait: whether the phase of this parity is over.
__device__ inline bool barrier_passed(u32 barrier, u32 parity) {
  int passed;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.s32 %0, 1, 0, done;\n"
      "}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

}  // namespace gqa

// cp_async.cuh: copies from global to shared memory that run behind the thread.
// Owns: one wrapper for each cp.async instruction (PTX ISA 9.7.9.25.3), and the cache policy that one takes; addresses
// in shared memory, and the load of a word from one. Never: decides what is copied; tile.cuh does. Threads: each thread
// waits for its own groups; a barrier publishes them to others.
#pragma once

#include "ptx/element.cuh"

namespace gqa {

__device__ inline u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// PTX ISA 9.7.9.8, ld.
__device__ inline float load_shared(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// 16 bytes, past L1; zero-filled where `valid` is false (source size 0).
__device__ inline void cp_async_16(u32 destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}

// An L2 policy: lines go first (PTX ISA 9.7.9.18, createpolicy).
__device__ inline u64 evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// cp_async_16 of what is read once: its lines leave L2 first.
__device__ inline void cp_async_16_once(u32 destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(destination),
               "l"(source), "r"(valid ? 16 : 0), "l"(evict_first())
               : "memory");
}

// The first `bytes` of 16, zero-filled after them; none is read where `bytes` is 0.
__device__ inline void cp_async_16_bytes(u32 destination, const void* source, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes)
               : "memory");
}

__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most `kPending` of this thread's groups are in flight.
template <int kPending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace gqa

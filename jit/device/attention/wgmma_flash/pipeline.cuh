// pipeline.cuh: a ring of shared-memory buffers between producers and consumers.
// Owns: Ring (a full and an empty barrier a buffer) and RingCursor, each side's place in it.
// Never: knows what the buffers hold.
// Threads: a producer waits on empty and arrives on full, if it is TMA with bytes; consumers wait on full
// and arrive on empty: one lane of each warp for what its instructions have read as one, every lane for what lanes
// have.
#pragma once

#include "ptx/mbarrier.cuh"

namespace gqa {

template <int kDepth>
struct Ring {
  Barrier full[kDepth], empty[kDepth];

  __device__ void init(int consumers, int producers = 1) {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      barrier_init(full[i], producers);
      barrier_init(empty[i], consumers);
    }
  }
};

// Which buffer comes next; kStep: of consumers that take every kStep-th. One number, since consumers have few registers
// to spare.
template <int kDepth, int kStep = 1>
struct RingCursor {
  u32 passed = 0;  // buffers

  __device__ void next() { passed += kStep; }
  __device__ int at() const { return passed % kDepth; }
  __device__ int before() const { return (passed + (kDepth - 1) * kStep) % kDepth; }
  // The parity of the current round.
  __device__ u32 parity() const { return passed / kDepth & 1; }

  __device__ u32 full(const Ring<kDepth>& ring) const { return shared_address(ring.full) + 8 * at(); }
  __device__ u32 empty(const Ring<kDepth>& ring) const { return shared_address(ring.empty) + 8 * at(); }
  // Producer: until the buffer's last content is used up; in the first round there is none.
  __device__ void wait_empty(const Ring<kDepth>& ring) const { barrier_wait(empty(ring), parity() ^ 1); }
  __device__ void wait_full(const Ring<kDepth>& ring) const { barrier_wait(full(ring), parity()); }
};

// Consumer: this warp is done with a buffer, which it has read by wgmma or ldmatrix.
template <int kDepth>
__device__ inline void release(const Ring<kDepth>& ring, int buffer) {
  barrier_arrive_once(shared_address(ring.empty) + 8 * buffer);
}

}  // namespace gqa

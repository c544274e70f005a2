// cluster.cuh: CTAs that run side by side and reach each other's shared memory.
// Owns: one wrapper for each instruction by which they do (PTX ISA sections beside them), and which of them loads what
// for all. A Config without kCluster is one CTA, and none of this is in its code.
// Never: knows what is handed over; pipeline.cuh and warpgroup_producer.cuh do.
// Threads: addresses are of the caller's own shared memory; at_rank() moves them to another CTA's.
#pragma once

#include "attention/common/features.cuh"
#include "attention/wgmma_flash/pipeline.cuh"
#include "ptx/tma.cuh"

namespace gqa {

// One CTA asks TMA for the keys of all, the last one for the values.
constexpr u32 kKeyLoader = 0;
template <typename Config>
constexpr u32 kValueLoader = cluster_size<Config>() - 1;

// 10.17, %cluster_ctarank: this CTA's number in its cluster.
template <typename Config>
__device__ inline u32 cluster_rank() {
  if constexpr (cluster_size<Config>() == 1) return 0;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// 9.7.9.23, mapa: where the CTA of this number has what lies at an address of mine.
__device__ inline u32 at_rank(u32 address, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// 9.7.13.15.13, mbarrier.arrive on another CTA's barrier, once a warp; release there, since `.release.cluster` becomes
// a fence of all of the GPU's memory.
__device__ inline void barrier_arrive_once_there(u32 barrier) {
  asm volatile(
      "{\n"
      ".reg .pred leader;\n"
      "elect.sync _|leader, 0xffffffff;\n"
      "@leader mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
      "}" ::"r"(barrier)
      : "memory");
}

// 9.7.13.15.13, mbarrier.arrive.expect_tx on another CTA's barrier.
__device__ inline void barrier_arrive_expect_there(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// 9.7.9.12, st.async: a word into another CTA's shared memory, some time; its four bytes count on a barrier there.
__device__ inline void store_there(u32 address, u32 value, u32 barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
               "r"(value), "r"(barrier)
               : "memory");
}

// 9.7.9.27.1.2, cp.async.bulk.tensor with multicast: the box lands at this place in each CTA of the mask, and its bytes
// count on the barrier at this place there.
__device__ inline void load_box_for_all(u32 destination, const TensorMap& map, u32 barrier, int column, int row,
                                        int head, int batch, u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch), "h"(ctas)
      : "memory");
}

// 9.7.13.3, barrier.cluster: all threads of all CTAs. Relaxed, it orders no memory; else what came before is seen
// after.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ inline void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Consumer: this warp is done with a buffer that CTA `loader` fills.
template <typename Config, int kDepth>
__device__ inline void release_to(u32 loader, const Ring<kDepth>& ring, int buffer) {
  if constexpr (cluster_size<Config>() == 1)
    release(ring, buffer);
  else
    barrier_arrive_once_there(at_rank(shared_address(ring.empty) + 8 * buffer, loader));
}

}  // namespace gqa

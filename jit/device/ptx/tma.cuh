// tma.cuh: boxes of tensors moved by TMA.
// Owns: one wrapper for each cp.async.bulk form (PTX ISA 9.7.9.27), and the fence between it and ordinary stores.
// Never: builds a tensor map; the host's tensor_map.cc does.
// Threads: one thread issues a copy; loads end on a barrier, stores in the issuing thread's groups.
#pragma once

#include "attention/wgmma_flash/tensor_maps.h"
#include "ptx/mbarrier.cuh"

namespace gqa {

// 9.7.9.27.1.4, prefetch.tensormap: the descriptor's own 128 bytes, ahead of its first use.
__device__ inline void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// 9.7.9.27.1.2, cp.async.bulk.tensor: a box at (column, pack, row, head, batch) into shared memory; what lies past the
// tensor's ends arrives as zeros.
__device__ inline void load_box(u32 destination, const TensorMap& map, u32 barrier, int column, int head_in_group,
                                int row, int head_group, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(column), "r"(head_in_group), "r"(row), "r"(head_group), "r"(batch)
      : "memory");
}

__device__ inline void load_box(u32 destination, const TensorMap& map, u32 barrier, int column, int row, int head,
                                int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// From shared memory; what lies past the tensor's ends is not written.
__device__ inline void store_box(u32 source, const TensorMap& map, int column, int head_in_group, int row,
                                 int head_group, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(source), "r"(column), "r"(head_in_group), "r"(row), "r"(head_group), "r"(batch)
      : "memory");
}

// 9.7.9.27.3, cp.async.bulk.commit_group and wait_group: of this thread's stores. `read`: until the sources of all but
// the last kPending groups may be written again.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// 9.7.13.4, fence.proxy.async: this thread's ordinary stores to shared memory, before TMA or wgmma reads.
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace gqa

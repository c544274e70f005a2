// tile_broadcast.cuh: the number of a cluster's next tile, on its way from the first CTA to the others.
// Owns: TileBroadcast, a ring of numbers in each CTA's shared memory, and TileBroadcaster, a producer's side of it.
// Never: chooses a tile.
// Threads: one producer thread of each CTA.
#pragma once

#include "attention/common/features.cuh"
#include "ptx/cluster.cuh"

namespace gqa {

// A CTA's values of a tile must have been asked for before the first CTA's consumers are done with it and its producer
// can announce the next but one: so three numbers are unread at most.
constexpr int kBroadcasts = 4;
struct TileBroadcast {
  Barrier full[kBroadcasts];
  u32 number[kBroadcasts];

  __device__ void init() {
    for (int i = 0; i < kBroadcasts; ++i) barrier_init(full[i], 1);
  }
};

// All take the number that the first has.
template <typename Config>
struct TileBroadcaster {
  TileBroadcast& broadcast;
  u32 passed = 0;

  __device__ u32 share(u32 mine) {
    const u32 slot = passed % kBroadcasts, parity = passed / kBroadcasts & 1;
    const u32 full = shared_address(broadcast.full) + 8 * slot, number = shared_address(broadcast.number) + 4 * slot;
    ++passed;
    if (cluster_rank<Config>() == 0) {
#pragma unroll
      for (u32 rank = 1; rank < cluster_size<Config>(); ++rank)
        store_there(at_rank(number, rank), mine, at_rank(full, rank));
      return mine;
    }
    barrier_arrive_expect(full, sizeof(u32));
    barrier_wait(full, parity);
    return *static_cast<const volatile u32*>(broadcast.number + slot);
  }
};

}  // namespace gqa

// dynamic_tiles.cuh: the dynamic tile scheduler: a counter in the workspace gives the next tile.
// Owns: DynamicTiles: the counter, from the first fetch until it is zero again.
// Never: divides a tile.
// Threads: one producer thread of each CTA; a cluster's first counts up for all of its CTAs.
#pragma once

#include "attention/wgmma_flash/schedule.cuh"
#include "ptx/cluster.cuh"

namespace gqa {

struct DynamicTiles : WholeTiles {
  static constexpr bool kBroadcastsTiles = true;

  template <typename Config>
  struct Tiles : TicketWriter<Config> {
    using TicketWriter<Config>::p;

    int number = blockIdx.x / cluster_size<Config>();
    int reserved = 0;

    using TicketWriter<Config>::TicketWriter;

    __device__ bool more() { return this->has(p, number); }

    __device__ void reserve() {
      if (cluster_rank<Config>() == 0) reserved = atomicAdd(p.counters, 1u);
    }

    // Every CTA, or cluster, counts up until it is past the end, once: the last to do so puts the counter back to zero.
    __device__ void next() {
      if (cluster_rank<Config>() == 0 && reserved == this->count(p, reserved + gridDim.x) - 1) *p.counters = 0;
      reserved += gridDim.x / cluster_size<Config>();
      if constexpr (cluster_size<Config>() > 1) reserved = this->broadcaster.share(reserved);
      number = reserved;
    }
  };
};

}  // namespace gqa

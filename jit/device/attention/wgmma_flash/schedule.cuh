// schedule.cuh: which tiles a CTA works on, one after the other.
// Owns: the two tile schedulers of a persistent grid: static, in rounds over it, and dynamic (kDynamic), where a
// counter in the workspace gives the next tile. Never: touches tensors. Threads: one producer thread counts up, a
// cluster's first for all of its CTAs; consumers read the tiles from a ring of tickets.
#pragma once

#include "attention/common/rows.cuh"
#include "ptx/cluster.cuh"

namespace gqa {

// The static scheduler: round by round over the SMs, every other round backwards, so that who began with a long tile
// ends with a short one. The kResident CTAs of an SM, which start one grid's share apart, take its rounds by turns. A
// cluster is as one CTA.
template <typename Config>
__device__ inline int round_tile(int index) {
  const int cluster = blockIdx.x / cluster_size<Config>();
  const int sms = gridDim.x / (Config::kResident * cluster_size<Config>());
  int first = cluster;
  int round = index * Config::kResident;
#pragma unroll
  for (int i = 1; Config::kResident > 1 && i <= Config::kResident; ++i) {  // a division would take longer
    if (first < sms) break;
    first -= sms;
    ++round;
  }
  return round * sms + (round % 2 == 0 ? first : sms - 1 - first);
}

template <typename Config>
__device__ inline int first_tile() {
  return Config::kDynamic ? blockIdx.x / cluster_size<Config>() : round_tile<Config>(0);
}

// Which of a tile's parts a ticket is under stream-K: stream_k.cuh.
struct KeyPart {
  int slot;        // of the workspace
  int parts;       // 0 or 1: it is all of the tile
  int first_slot;  // of the tile's parts
  int tile;        // of the last partial wave
};

// A tile on its way from the producer to the consumers, who have no time for the arithmetic.
struct Ticket {
  Place place;
  int blocks;  // of keys, walked from the last; 0: there are no more tiles
  int first;   // of these blocks
  KeyPart part;
};

constexpr int kTickets = 2;
struct Tickets {
  Ring<kTickets> ring;
  Ticket ticket[kTickets];
};

// The dynamic scheduler's tile numbers, on their way from a cluster's first CTA to another. That CTA's values of a tile
// must have been asked for before the first CTA's consumers are done with it and its producer can announce the next but
// one: so three numbers are unread at most.
constexpr int kBroadcasts = 4;
struct TileBroadcast {
  Barrier full[kBroadcasts];
  u32 number[kBroadcasts];

  __device__ void init() {
    for (int i = 0; i < kBroadcasts; ++i) barrier_init(full[i], 1);
  }
};

// Each producer's side of it: all take the number that the first has.
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

// Tiles of the last partial wave, which stream-K divides.
template <typename Config>
__device__ inline int partial_wave_tiles(const AttentionParams& p) {
  return stream_k<Config>() ? p.tiles % static_cast<int>(gridDim.x / cluster_size<Config>()) : 0;
}

// The producer's walk over its CTA's tiles. The next number is reserved under the current tile's last loads: the
// counter takes as long to answer as a load, and who asks earlier than it must gets a tile that another would begin
// first.
template <typename Config>
struct ProducerWalk {
  const AttentionParams& p;
  Tickets& tickets;
  TileBroadcaster<Config> broadcaster;
  RingCursor<kTickets> cursor;
  int number = first_tile<Config>();
  int index = 0;
  int reserved = 0;

  __device__ ProducerWalk(const AttentionParams& params, Tickets& shared, TileBroadcast& broadcast)
      : p(params), tickets(shared), broadcaster{broadcast} {}

  __device__ bool more() const { return number < p.tiles - partial_wave_tiles<Config>(p); }

  __device__ void reserve() {
    if constexpr (!Config::kDynamic)
      reserved = round_tile<Config>(++index);
    else if (cluster_rank<Config>() == 0)
      reserved = atomicAdd(p.counters, 1u);
  }

  // Every CTA, or cluster, counts up until it is past the end, once: the last to do so puts the counter back to zero.
  __device__ void next() {
    if constexpr (Config::kDynamic) {
      if (cluster_rank<Config>() == 0 && reserved == p.tiles - 1) *p.counters = 0;
      reserved += gridDim.x / cluster_size<Config>();
      if constexpr (cluster_size<Config>() > 1) reserved = broadcaster.share(reserved);
    }
    number = reserved;
  }

  __device__ void announce(const Ticket& ticket) {
    cursor.wait_empty(tickets.ring);
    tickets.ticket[cursor.at()] = ticket;
    barrier_arrive(cursor.full(tickets.ring));
    cursor.next();
  }
};

// A consumer's: it reads the tickets as they come.
struct ConsumerWalk {
  Tickets& tickets;
  RingCursor<kTickets> cursor;

  __device__ explicit ConsumerWalk(Tickets& shared) : tickets(shared) {}

  __device__ const volatile Ticket& ticket() const { return tickets.ticket[cursor.at()]; }
  // Of the next tile, once it is known; 0 after the last.
  __device__ int blocks() const {
    cursor.wait_full(tickets.ring);
    return ticket().blocks;
  }
  __device__ void next() {
    __syncwarp();  // tells the assembler that lanes are together: it would spill in kernels with stream-K
    barrier_arrive(cursor.empty(tickets.ring));
    cursor.next();
  }
};

}  // namespace gqa

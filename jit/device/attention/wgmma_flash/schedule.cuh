// schedule.cuh: which tiles a CTA works on, one after the other.
// Owns: the two ways to hand out tile numbers: rounds over the grid, or (kDraw) the next one free, drawn from a counter
// in the workspace. Never: touches tensors. Threads: one producer thread draws, a cluster's first for all of its CTAs;
// consumers read what it drew from a ring of tickets.
#pragma once

#include "attention/common/rows.cuh"
#include "ptx/cluster.cuh"

namespace gqa {

// Round by round over the processors, every other round backwards, so that who began with a long tile ends
// with a short one. The kResident CTAs of a processor, which start one grid's share apart, take its rounds in turn. A
// cluster is as one CTA.
template <typename Config>
__device__ inline int round_tile(int turn) {
  const int cluster = blockIdx.x / cluster_size<Config>();
  const int processors = gridDim.x / (Config::kResident * cluster_size<Config>());
  int first = cluster;
  int round = turn * Config::kResident;
#pragma unroll
  for (int i = 1; Config::kResident > 1 && i <= Config::kResident; ++i) {  // a division would take longer
    if (first < processors) break;
    first -= processors;
    ++round;
  }
  return round * processors + (round % 2 == 0 ? first : processors - 1 - first);
}

template <typename Config>
__device__ inline int first_tile() {
  return Config::kDraw ? blockIdx.x / cluster_size<Config>() : round_tile<Config>(0);
}

// Which of a tile's parts a ticket is, where they are shared: tail.cuh.
struct KeyPart {
  int slot;        // of the workspace
  int parts;       // 0 or 1: it is all of the tile
  int first_slot;  // of the tile's parts
  int tile;        // of those that are shared
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

// What a cluster's first CTA drew, on its way to another. That CTA's values of a tile must have been asked for before
// the first CTA's consumers are done with it and its producer can announce the next but one: so three numbers are
// unread at most.
constexpr int kDraws = 4;
struct Draws {
  Barrier full[kDraws];
  u32 number[kDraws];

  __device__ void init() {
    for (int i = 0; i < kDraws; ++i) barrier_init(full[i], 1);
  }
};

// Each producer's side of it: all take the number that the first has.
template <typename Config>
struct DrawsTogether {
  Draws& draws;
  u32 passed = 0;

  __device__ u32 share(u32 mine) {
    const u32 slot = passed % kDraws, parity = passed / kDraws & 1;
    const u32 full = shared_address(draws.full) + 8 * slot, number = shared_address(draws.number) + 4 * slot;
    ++passed;
    if (cluster_rank<Config>() == 0) {
#pragma unroll
      for (u32 rank = 1; rank < cluster_size<Config>(); ++rank)
        store_there(at_rank(number, rank), mine, at_rank(full, rank));
      return mine;
    }
    barrier_arrive_expect(full, sizeof(u32));
    barrier_wait(full, parity);
    return *static_cast<const volatile u32*>(draws.number + slot);
  }
};

// Tiles that no whole round is left for.
template <typename Config>
__device__ inline int left_over(const AttentionParams& p) {
  return shares_tail<Config>() ? p.tiles % static_cast<int>(gridDim.x / cluster_size<Config>()) : 0;
}

// The producer's walk over its CTA's tiles. The next number is reserved under the current tile's last loads: a draw
// takes as long as a load, and who draws earlier than it must takes a tile that another would begin first.
template <typename Config>
struct ProducerWalk {
  const AttentionParams& p;
  Tickets& tickets;
  DrawsTogether<Config> together;
  RingCursor<kTickets> cursor;
  int number = first_tile<Config>();
  int turn = 0;
  int reserved = 0;

  __device__ ProducerWalk(const AttentionParams& params, Tickets& shared, Draws& draws)
      : p(params), tickets(shared), together{draws} {}

  __device__ bool more() const { return number < p.tiles - left_over<Config>(p); }

  __device__ void reserve() {
    if constexpr (!Config::kDraw)
      reserved = round_tile<Config>(++turn);
    else if (cluster_rank<Config>() == 0)
      reserved = atomicAdd(p.counters, 1u);
  }

  // Every CTA, or cluster, draws until it draws past the end, once: the last of those draws puts the counter back to
  // zero.
  __device__ void next() {
    if constexpr (Config::kDraw) {
      if (cluster_rank<Config>() == 0 && reserved == p.tiles - 1) *p.counters = 0;
      reserved += gridDim.x / cluster_size<Config>();
      if constexpr (cluster_size<Config>() > 1) reserved = together.share(reserved);
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
    __syncwarp();  // tells the assembler that lanes are together: it would spill in kernels with tails
    barrier_arrive(cursor.empty(tickets.ring));
    cursor.next();
  }
};

}  // namespace gqa

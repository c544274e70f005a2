// schedule.cuh: which tiles a CTA works on, one after the other.
// Owns: the three ways to hand out tile numbers: one a CTA, every gridDim-th, or the next one free, drawn from a
// counter in the workspace. Never: touches tensors. Threads: one producer thread draws; consumers read what it drew
// through a ring of tickets.
#pragma once

#include "pipeline.cuh"
#include "rows.cuh"

namespace gqa {

enum Schedule { kOneTile = 0, kStatic = 1, kDynamic = 2 };

__device__ inline int tile_count(const AttentionParams& p) { return p.row_tiles * p.head_groups * p.batch; }

// A drawn number on its way from the producer to the consumers.
constexpr int kTickets = 2;
struct Tickets {
  Ring<kTickets> ring;
  int number[kTickets];
};

// One side's walk over its CTA's tiles: `number` is the current one.
template <typename Config, bool kProducer>
struct TileWalk {
  const AttentionParams& p;
  Tickets& tickets;
  RingCursor<kTickets> cursor;
  int number = blockIdx.x;

  __device__ TileWalk(const AttentionParams& params, Tickets& shared) : p(params), tickets(shared) {}

  __device__ bool more() const { return number < tile_count(p); }

  __device__ void next() {
    if constexpr (Config::kSchedule == kOneTile)
      number = tile_count(p);
    else if constexpr (Config::kSchedule == kStatic)
      number += gridDim.x;
    else if constexpr (kProducer)
      draw();
    else
      receive();
  }

 private:
  // Every CTA draws until it draws past the end, once: the last of those draws puts the counter back to zero.
  __device__ void draw() {
    const int drawn = static_cast<int>(atomicAdd(p.counters, 1u));
    if (drawn == tile_count(p) - 1) *p.counters = 0;
    number = drawn + gridDim.x;
    cursor.wait_empty(tickets.ring);
    tickets.number[cursor.at] = number;
    barrier_arrive(cursor.full(tickets.ring));
    cursor.next();
  }

  __device__ void receive() {
    cursor.wait_full(tickets.ring);
    number = *static_cast<volatile int*>(&tickets.number[cursor.at]);
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(cursor.empty(tickets.ring));
    cursor.next();
  }
};

}  // namespace gqa

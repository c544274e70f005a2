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

// kStatic: round by round, every other round backwards, so that who began with a long tile ends with a short one.
__device__ inline int static_tile(int round) {
  const int first = blockIdx.x, stride = gridDim.x;
  return round * stride + (round % 2 == 0 ? first : stride - 1 - first);
}

// A drawn number on its way from the producer to the consumers.
constexpr int kTickets = 2;
struct Tickets {
  Ring<kTickets> ring;
  int number[kTickets];
};

// The producer's walk over its CTA's tiles. The next number is reserved while the current tile loads: a draw takes as
// long as a load.
template <typename Config>
struct ProducerWalk {
  const AttentionParams& p;
  Tickets& tickets;
  RingCursor<kTickets> cursor;
  int number = blockIdx.x;
  int round = 0;  // kStatic
  int reserved = 0;

  __device__ ProducerWalk(const AttentionParams& params, Tickets& shared) : p(params), tickets(shared) {}

  __device__ bool more() const { return number < tile_count(p); }

  __device__ void reserve() {
    if constexpr (Config::kSchedule == kOneTile) reserved = tile_count(p);
    if constexpr (Config::kSchedule == kStatic) reserved = static_tile(++round);
    if constexpr (Config::kSchedule == kDynamic) reserved = atomicAdd(p.counters, 1u);
  }

  // Every CTA draws until it draws past the end, once: the last of those draws puts the counter back to zero.
  __device__ void announce() {
    if constexpr (Config::kSchedule != kDynamic) return;
    if (reserved == tile_count(p) - 1) *p.counters = 0;
    reserved += gridDim.x;
    cursor.wait_empty(tickets.ring);
    tickets.number[cursor.at()] = reserved;
    barrier_arrive(cursor.full(tickets.ring));
    cursor.next();
  }

  __device__ void next() { number = reserved; }
};

// A consumer's: it takes the same numbers.
template <typename Config>
struct ConsumerWalk {
  const AttentionParams& p;
  Tickets& tickets;
  RingCursor<kTickets> cursor;
  int number = blockIdx.x;
  int round = 0;  // kStatic

  __device__ ConsumerWalk(const AttentionParams& params, Tickets& shared) : p(params), tickets(shared) {}

  __device__ bool more() const { return number < tile_count(p); }

  __device__ void next() {
    if constexpr (Config::kSchedule == kOneTile) number = tile_count(p);
    if constexpr (Config::kSchedule == kStatic) number = static_tile(++round);
    if constexpr (Config::kSchedule == kDynamic) {
      cursor.wait_full(tickets.ring);
      number = *static_cast<volatile int*>(&tickets.number[cursor.at()]);
      release(tickets.ring, cursor.at());
      cursor.next();
    }
  }
};

}  // namespace gqa

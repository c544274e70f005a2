// schedule.cuh: how tiles reach a CTA's roles, whichever tile scheduler a Config has.
// Owns: the seam between Config::TileScheduler and the kernel: WholeTiles, what a scheduler answers where it does no
// more than hand out whole tiles; tickets, by which the producer tells consumers what it was given. Each scheduler has
// a header of its own, which the generated text includes. Never: knows a scheduler, or touches tensors. Threads: one
// producer thread asks the scheduler; consumers read tickets from a ring, and ask it to join parts.
#pragma once

#include "attention/common/rows.cuh"
#include "attention/wgmma_flash/pipeline.cuh"
#include "attention/wgmma_flash/tile_broadcast.cuh"
#include "attention/wgmma_flash/tile_list.cuh"

namespace gqa {

// What a scheduler tells itself in a ticket: as many words in every kernel, so that the host's plan knows no scheduler.
// Where sequences have lengths of their own, no scheduler has parts, and a tile's sequence is there
// (tile_sequence.cuh).
struct SchedulerWords {
  int word[4];
};

// A tile on its way from the producer to the consumers, who have no time for the arithmetic.
struct Ticket {
  Place place;
  int blocks;            // of keys, walked from the last; 0: there are no more tiles
  int first;             // of these blocks
  SchedulerWords words;  // of a part of a tile, or of its sequence
};

constexpr int kTickets = 2;
struct Tickets {
  Ring<kTickets> ring;
  Ticket ticket[kTickets];
};

// What producers' walks over their CTA's tiles have in common.
template <typename Config>
struct TicketWriter : TileList<Config> {
  const AttentionParams& p;
  Tickets& tickets;
  TileBroadcaster<Config> broadcaster;  // in every kernel: without it the assembler numbers registers anew
  RingCursor<kTickets> cursor;

  __device__ TicketWriter(const AttentionParams& params, Tickets& shared, TileBroadcast& broadcast)
      : p(params), tickets(shared), broadcaster{broadcast} {}

  __device__ void announce(const Ticket& ticket) {
    cursor.wait_empty(tickets.ring);
    tickets.ticket[cursor.at()] = ticket;
    barrier_arrive(cursor.full(tickets.ring));
    cursor.next();
  }
};

// Besides, a scheduler has Tiles<Config>, a TicketWriter: while more(), `number` is the tile's; then next(). The next
// number is reserved by reserve(), under the current tile's last loads: a counter takes as long to answer as a load,
// and who asks earlier than it must gets a tile that another would begin first.
struct WholeTiles {
  // Whether of a cluster only the first CTA knows the next tile, and tells the others.
  static constexpr bool kBroadcastsTiles = false;

  // Whether there are parts of tiles, too: then Tiles hands out this producer's, after its whole tiles, by
  // each_part(blocks of such a tile, load): load(tile's number, first block, end, words).
  static constexpr bool kHasParts = false;

  // Whether a consumer's core now has all keys of the ticket's rows; else another's will have.
  template <typename Config, typename Core>
  __device__ static bool join(const AttentionParams&, int /*group*/, Core&, const volatile SchedulerWords&) {
    return true;
  }
};

template <typename Config>
using ProducerWalk = typename Config::TileScheduler::template Tiles<Config>;

// Reads the tickets as they come.
struct TicketReader {
  Tickets& tickets;
  RingCursor<kTickets> cursor;

  __device__ explicit TicketReader(Tickets& shared) : tickets(shared) {}

  __device__ const volatile Ticket& ticket() const { return tickets.ticket[cursor.at()]; }
  // The blocks of the next tile, once it is known; 0 after the last.
  __device__ int blocks() const {
    cursor.wait_full(tickets.ring);
    return ticket().blocks;
  }
  __device__ void pass() {
    barrier_arrive(cursor.empty(tickets.ring));
    cursor.next();
  }
};

// A consumer's walk.
struct ConsumerWalk : TicketReader {
  using TicketReader::TicketReader;

  __device__ void next() {
    __syncwarp();  // tells the assembler that lanes are together: it would spill in kernels whose tiles have parts
    pass();
  }
};

}  // namespace gqa

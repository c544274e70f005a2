// page_copies.cuh: keys and values in pages that TMA's boxes do not fit, or are too small for: cp.async brings them row
// by row. Owns: PageCopier, the warps beside the producer thread that follow its tickets; the swizzle, which TMA writes
// otherwise; when a block is the consumers'.
// Never: reads a row or a table's entry past the sequence's end: zeros come there, so that nobody cuts values
// (value_tails.cuh). Threads: whole warps, each of which publishes what its lanes have copied.
#pragma once

#include "attention/common/page_table.cuh"
#include "attention/wgmma_flash/schedule.cuh"
#include "attention/wgmma_flash/warpgroup_smem.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/index.cuh"
#include "ptx/tma.cuh"

namespace gqa {

template <typename Config>
struct PageCopier {
  using Smem = WarpgroupSmem<Config>;
  using Bits = KvBits<Config>;
  static constexpr int kTileN = Config::kTileN;
  static constexpr int kLanesARow = kPanelRowBytes / 16;  // of a panel
  static constexpr int kRowsAtOnce = 32 / kLanesARow;
  static constexpr int kRowStep = Smem::kCopyWarps * kRowsAtOnce;  // warps take rows of a block by turns
  static constexpr int kSteps = (kTileN + kRowStep - 1) / kRowStep;
  static constexpr int kLookUps = (kSteps * kRowsAtOnce + 31) / 32;  // a lane's, of its warp's rows of a block
  static_assert(kRowStep % 8 == 4, "copy_rows");
  static_assert(kTileN % kRowsAtOnce == 0, "a warp's rows exist together");

  // The table's entries of a block's rows: lane l has those of its warp's rows l, l + 32.
  struct Entries {
    int entry[kLookUps];
  };

  const AttentionParams& p;
  Smem& smem;
  PageTable<Config> table;
  int warp;                        // of those that copy
  const volatile Ticket* ticket;   // of the tile: read anew where it is asked for, since a loop has few registers
  RingCursor<Config::kStages> at;  // of the keys that come next
  u32 copied = 0;                  // the full barrier of a block that is copied and not published; 0: there is none

  __device__ PageCopier(const AttentionParams& params, const CacheParams& cache, Smem& shared, int of_copying)
      : p(params), smem(shared), table{&cache}, warp(of_copying) {}

  // The warp's i-th row of a block.
  __device__ u32 row(u32 i) const { return i / kRowsAtOnce * kRowStep + warp * kRowsAtOnce + i % kRowsAtOnce; }

  // Until at most kInFlight blocks are on their way, of which the one published is none. wgmma reads by another proxy.
  template <int kInFlight>
  __device__ void publish() {
    if (copied == 0) return;
    cp_async_wait<kInFlight>();
    fence_async();
    __syncwarp();
    barrier_arrive_once(copied);
    copied = 0;
  }

  // For whom this waits may wait for what is not published.
  __device__ void wait(u32 barrier, u32 parity) {
    if (__all_sync(0xffffffffu, barrier_passed(barrier, parity))) return;
    publish<0>();
    barrier_wait(barrier, parity);
  }

  __device__ int keys() const { return ticket->words.word[0]; }

  // The entries of the block of keys `first` and on. A walk down goes past the first one.
  __device__ Entries look_up(int first) {
    table.open(static_cast<u32>(ticket->place.batch));
    Entries rows;
#pragma unroll
    for (int i = 0; i < kLookUps; ++i) {
      const int of_block = row(i * 32 + lane_index()), key = first + of_block;
      rows.entry[i] =
          first >= 0 && of_block < kTileN && key < keys() ? table.entry(static_cast<u32>(key) / Config::kPage) : 0;
    }
    return rows;
  }

  // Eight lanes a row of a panel. The swizzle of a row is its number's last three bits: as a warp's steps are four rows
  // more than a multiple of eight, every other one flips the last.
  template <int kColumns>
  __device__ void copy_rows(u32 buffer, const void* tensor, const TensorStrides& s, int first, const Entries& rows) {
    const u32 lane = lane_index(), piece = lane % kLanesARow, of_lane = lane / kLanesARow, own = row(of_lane);
    first = anew(first);
    const Bits* const head = static_cast<const Bits*>(tensor) + static_cast<u32>(ticket->place.kv_head) * s.head;
    long long address[kLookUps];  // of the rows whose entries this lane has
#pragma unroll
    for (int i = 0; i < kLookUps; ++i)
      address[i] = reinterpret_cast<long long>(
          table.row(head, table.existing(rows.entry[i]), (first + row(i * 32 + lane)) % Config::kPage, s));
    const int past = first + static_cast<int>(own) - keys();  // the sequence's end, if not below 0
    const u32 to = buffer + own * kPanelRowBytes + (piece ^ own % 8) * 16;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (kTileN % kRowStep != 0 && i == kSteps - 1 && own + i * kRowStep >= kTileN) break;
      const int looked_up = i * kRowsAtOnce;
      const auto* const from = reinterpret_cast<const char*>(
          __shfl_sync(0xffffffffu, address[looked_up / 32], looked_up % 32 + of_lane) + piece * 16);
      const u32 swizzled = (i % 2 == 0 ? to : to ^ 64) + i * kRowStep * kPanelRowBytes;
#pragma unroll
      for (int panel = 0; panel < panels(kColumns); ++panel)
        if (panel * kPanelColumns + piece * kPiece<Bits> < kColumns)
          cp_async_16(swizzled + panel * kTileN * kPanelRowBytes, from + panel * kPanelRowBytes,
                      past < -(i * kRowStep));
    }
  }

  // The block before is published under this one's copies.
  template <int kColumns>
  __device__ void copy_block(const Ring<Config::kStages>& ring, RingCursor<Config::kStages> cursor, u32 buffers,
                             const void* tensor, const TensorStrides& s, int first, const Entries& rows) {
    constexpr int kBufferBytes = panels(kColumns) * kTileN * kPanelRowBytes;
    wait(cursor.empty(ring), cursor.parity() ^ 1);
    copy_rows<kColumns>(buffers + cursor.at() * kBufferBytes, tensor, s, first, rows);
    cp_async_commit();
    publish<1>();
    copied = cursor.full(ring);
  }
  __device__ void copy_keys(int first, const Entries& rows) {
    copy_block<Config::kHeadDim>(smem.k_ring, at, shared_address(smem.k), p.k, p.k_strides, first, rows);
    at.next();
  }
  __device__ void copy_values(int first, u32 blocks_after, const Entries& rows) {
    copy_block<Config::kHeadDimV>(smem.v_ring, {at.passed - 1 - blocks_after}, shared_address(smem.v), p.v, p.v_strides,
                                  first, rows);
  }

  // In the order the consumers ask, from the last block: the keys of the next one before the values of this one. A
  // block's entries are read a block ahead.
  __device__ void copy_tile(int blocks) {
    Entries of_keys, next = look_up((blocks - 1) * kTileN);
    bool begun = false;
#pragma unroll 1
    for (int first = blocks * kTileN; first >= 0; first -= kTileN, begun = true) {
      const Entries of_values = of_keys;
      of_keys = next;
      if (first > 0) {
        next = look_up(first - 2 * kTileN);
        copy_keys(first - kTileN, of_keys);
      }
      if (first == kTileN && warp == 0) barrier_arrive_once(shared_address(smem.tile_ends.ring.full));
      if (begun) copy_values(first, first > 0 ? 1 : 0, of_values);
    }
  }

  // All tiles, whose tickets the producer writes.
  __device__ void run() {
    wait_for_grids_before();
    for (TicketReader tickets(smem.tickets);;) {
      wait(tickets.cursor.full(smem.tickets.ring), tickets.cursor.parity());
      ticket = &tickets.ticket();
      const int blocks = ticket->blocks;
      if (blocks == 0) break;
      copy_tile(blocks);
      tickets.pass();
    }
    publish<0>();
    let_next_grid_begin();
  }
};

}  // namespace gqa

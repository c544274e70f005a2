// warpgroup_producer.cuh: the thread that keeps TMA busy; of pages two, since a block is many boxes: the other's are
// values. Owns: its side of the rings, and the order in which a tile's queries, keys and values are asked for. One of a
// cluster's producers asks for all CTAs' keys, another for their values. Never: touches what it loads. Threads: one; of
// pages two, each with a producer of its own.
#pragma once

#include "attention/wgmma_flash/block_pages.cuh"
#include "attention/wgmma_flash/schedule.cuh"
#include "attention/wgmma_flash/tile_sequence.cuh"
#include "attention/wgmma_flash/warpgroup_smem.cuh"
#include "ptx/cluster.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupProducer : ProducerSequence<Config>,
                           TailProducer<WarpgroupSmem<Config>::kCutsValues>,
                           TileEndsReader<WarpgroupSmem<Config>::kCopiesPages> {
  using Smem = WarpgroupSmem<Config>;
  static constexpr int kCluster = Smem::kCluster;
  static constexpr int kQueryRows = kCluster == 1 ? Config::kTileM : 64;  // of a box; runtime/cuda/launch/tensor_map.cc

  const AttentionParams& p;
  const TensorMaps& maps;
  Smem& smem;
  RingCursor<Smem::kQueries> q;
  RingCursor<Config::kStages> k, v;

  __device__ void load_queries(const Place& place) {
    q.wait_empty(smem.q_ring);
    barrier_arrive_expect(q.full(smem.q_ring), Smem::kQueryBytes);
#pragma unroll
    for (int panel = 0; panel < panels(Config::kHeadDim); ++panel)
#pragma unroll
      for (int box = 0; box < Config::kTileM / kQueryRows; ++box)
        load_box(shared_address(smem.q[q.at()]) + panel * Smem::kQueryPanel + box * kQueryRows * kPanelRowBytes, maps.q,
                 q.full(smem.q_ring), panel * kPanelColumns, 0,
                 this->query_row((place.first_row + box * Smem::kGroupStep) / Config::kPack),
                 place.head / Config::kPack, query_slab<Config>(place));
    q.next();
  }

  // Every CTA's barrier that a block's bytes will count on.
  __device__ static void expect_block(u32 full, u32 bytes) {
    if constexpr (kCluster == 1) {
      barrier_arrive_expect(full, bytes);
    } else {
#pragma unroll
      for (u32 rank = 0; rank < kCluster; ++rank) barrier_arrive_expect_there(at_rank(full, rank), bytes);
    }
  }

  __device__ void load_panel(u32 to, const TensorMap& map, u32 full, int column, int row, const Place& place) {
    if constexpr (kCluster == 1)
      load_box(to, map, full, column, row, place.kv_head, key_slab<Config>(place));
    else
      load_box_for_all(to, map, full, column, row, place.kv_head, place.batch, (1 << kCluster) - 1);
  }

  // Panels of a block's rows, of a sequence that begins at row `first`; of transposed keys the panels lie side by side
  // along the keys.
  template <int kPanels, int kPanelBytes, bool kTransposed>
  __device__ void load_block(char* buffer, const TensorMap& map, u32 full, const Place& place, int first, int block,
                             BlockPages<Config> pages) {
    const int first_key = block * Config::kTileN;
    expect_block(full, kPanels * kPanelBytes);
    if constexpr (Config::kKeys == KeyLayout::kPaged)
      return pages.template load<kPanels, kPanelBytes>(shared_address(buffer), map, full, place.kv_head, first_key);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel)
      load_panel(shared_address(buffer) + panel * kPanelBytes, map, full,
                 panel * kPanelColumns + (kTransposed ? first_key : 0), kTransposed ? 0 : first + first_key, place);
  }

  // Pages are looked up before the buffer is free, so that they come under the wait.
  __device__ void load_keys(const Place& place, int block) {
    if (cluster_rank<Config>() != kKeyLoader) return;
    const auto pages = BlockPages<Config>::of(*this, place, block);
    k.wait_empty(smem.k_ring);
    load_block<Smem::kKeyPanels, Smem::kKeyPanel, Smem::kKeysTransposed>(smem.k[k.at()], maps.k, k.full(smem.k_ring),
                                                                         place, this->first_key, block, pages);
    k.next();
  }

  __device__ void load_values(const Place& place, int block) {
    if (cluster_rank<Config>() != kValueLoader<Config>) return;
    const auto pages = BlockPages<Config>::of(*this, place, block);
    v.wait_empty(smem.v_ring);
    load_block<panels(Config::kHeadDimV), Smem::kValuePanel, false>(smem.v[v.at()], maps.v, values_land_on(block),
                                                                    place, this->first_value, block, pages);
    v.next();
  }

  // The barrier of a block's values: the consumers', or, where the sequence ends within it, that of the warp which
  // zeroes the rest.
  __device__ u32 values_land_on(int block) {
    if constexpr (Smem::kCutsValues) {
      const int rows = this->keys - block * Config::kTileN;
      if (rows < Config::kTileN) return this->begin_tail(smem.tails, {v.at(), rows});
    }
    return v.full(smem.v_ring);
  }

  // Blocks of keys that the last row of the cluster's tile, which sees most, needs. One at least: rows that see no key
  // mask it all.
  __device__ int block_count(const Place& place) const {
    const int end = place.first_row + Config::kTileM * kCluster;
    return max(1, (this->walk(p).seen_before(end) + Config::kTileN - 1) / Config::kTileN);
  }

  // In the order the consumers ask: the keys of the next block before the values of this one.
  __device__ void load(ProducerWalk<Config>& walk, const Ticket& ticket) {
    const Place& place = ticket.place;
    wait_for_grids_before();  // whose end the first tile's loads await, and so all that follows from them
    load_keys(place, ticket.blocks - 1);
    load_queries(place);
    walk.announce(ticket);
#pragma unroll 1  // a producer has few registers
    for (int block = ticket.blocks - 1; block >= ticket.first; --block) {
      if (block > ticket.first) load_keys(place, block - 1);
      if (block == (ticket.blocks > 1 ? 1 : 0)) walk.reserve();
      if constexpr (!Smem::kValuesApart) load_values(place, block);
    }
  }

  // Leads a tile whose keys and values others copy: they follow its ticket.
  __device__ void lead(ProducerWalk<Config>& walk, const Ticket& ticket) {
    walk.announce(ticket);
    load_queries(ticket.place);
    this->wait_for_end(smem.tile_ends);
    walk.reserve();
  }

  // The values of all tiles, whose tickets another producer writes.
  __device__ void load_values_apart() {
    TicketReader tickets(smem.tickets);
    for (int blocks; (blocks = tickets.blocks()) > 0; tickets.pass()) {
      const volatile Place& at = tickets.ticket().place;
      const Place place = {at.batch, at.head, at.kv_head, at.first_row};
      this->keys = tickets.ticket().words.word[0];
      for (int block = blocks - 1; block >= 0; --block) load_values(place, block);
    }
  }

  __device__ void load_tile(ProducerWalk<Config>& walk) {
    Place place = walk.place(p, walk.number);
    this->open_sequence(p, place.batch);
    const int blocks = block_count(place);
    place.first_row += cluster_rank<Config>() * 64;
    // Apart, since the assembler numbers registers anew where it must see that there are no words.
    if constexpr (Smem::kCopiesPages)
      lead(walk, {place, blocks, 0, this->words()});
    else if constexpr (has_lists<Config>())
      load(walk, {place, blocks, 0, this->words()});
    else
      load(walk, {place, blocks});
    walk.next();
  }

  // This producer's parts of tiles, whose keys are all as many.
  __device__ void load_parts(ProducerWalk<Config>& walk) {
    const auto load_part = [&](int number, int first, int end, const SchedulerWords& words) {
      Place place = walk.place(p, number);
      place.first_row += cluster_rank<Config>() * 64;
      load(walk, {place, end, first, words});
    };
    walk.each_part(block_count(walk.place(p, 0)), load_part);
  }
};

}  // namespace gqa

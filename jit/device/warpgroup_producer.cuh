// warpgroup_producer.cuh: the thread that keeps the copy engine busy.
// Owns: its side of the rings, and the order in which a tile's queries, keys and values are asked for.
// Never: touches what it loads.
// Threads: one.
#pragma once

#include "tma.cuh"
#include "warpgroup_smem.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupProducer {
  using Smem = WarpgroupSmem<Config>;

  const AttentionParams& p;
  const TensorMaps& maps;
  Smem& smem;
  RingCursor<1> q;
  RingCursor<Config::kStages> k, v;

  __device__ void load_queries(const Place& place) {
    q.wait_empty(smem.q_ring);
    barrier_arrive_expect(q.full(smem.q_ring), Smem::kQueryBytes);
#pragma unroll
    for (int panel = 0; panel < panels(Config::kHeadDim); ++panel)
      load_box(shared_address(smem.q) + panel * Smem::kQueryPanel, maps.q, q.full(smem.q_ring), panel * kPanelColumns,
               0, place.first_row / Config::kPack, place.head / Config::kPack, place.batch);
    q.next();
  }

  // Panels of a block's rows; of transposed keys the panels lie side by side along the keys.
  template <int kPanels, int kPanelBytes, bool kTransposed>
  __device__ void load_block(char* buffer, const TensorMap& map, u32 full, const Place& place, int block) {
    const int first_key = block * Config::kTileN;
    barrier_arrive_expect(full, kPanels * kPanelBytes);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel)
      load_box(shared_address(buffer) + panel * kPanelBytes, map, full,
               panel * kPanelColumns + (kTransposed ? first_key : 0), kTransposed ? 0 : first_key, place.kv_head,
               place.batch);
  }

  __device__ void load_keys(const Place& place, int block) {
    k.wait_empty(smem.k_ring);
    load_block<Smem::kKeyPanels, Smem::kKeyPanel, Smem::kKeysTransposed>(smem.k[k.at()], maps.k, k.full(smem.k_ring),
                                                                         place, block);
    k.next();
  }

  __device__ void load_values(const Place& place, int block) {
    v.wait_empty(smem.v_ring);
    load_block<panels(Config::kHeadDimV), Smem::kValuePanel, false>(smem.v[v.at()], maps.v, v.full(smem.v_ring), place,
                                                                    block);
    v.next();
  }

  // Blocks of keys that the tile's last row, which sees most, needs. One at least: rows that see no key mask it all.
  __device__ int block_count(const Place& place) const {
    return max(1, (keys_seen<Config>(p, place.first_row + Config::kTileM) + Config::kTileN - 1) / Config::kTileN);
  }

  // In the order the consumers ask: the keys of the next block before the values of this one.
  __device__ void load_tile(ProducerWalk<Config>& walk) {
    const Place place = tile_place<Config>(p, walk.number);
    const int blocks = block_count(place);
    walk.announce({place, blocks});
    walk.reserve();
    load_keys(place, blocks - 1);
    load_queries(place);
#pragma unroll 1  // a producer has few registers
    for (int block = blocks - 1; block >= 0; --block) {
      if (block > 0) load_keys(place, block - 1);
      load_values(place, block);
    }
    walk.next();
  }
};

}  // namespace gqa

// warpgroup_flash.cuh: the warpgroup skeleton (Hopper): a producer warp feeds kTileM / 64 consumer warpgroups by TMA;
// each walks the keys of its 64 query rows, last block first. Owns: the shared-memory plan, the two roles and what runs
// under what. Never: knows how a tile is numbered (schedule.cuh) or a step is computed (warpgroup_attention.cuh).
// Threads: consumers first, then a producer warpgroup of which one thread works; roles meet at the rings' barriers.
#pragma once

#include "epilogue.cuh"
#include "schedule.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "warpgroup_attention.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupSmem {
  static constexpr int kQueryBytes = panels(Config::kHeadDim) * Config::kTileM * kPanelRowBytes;
  static constexpr int kOutBytes = panels(Config::kHeadDimV) * Config::kTileM * kPanelRowBytes;
  static constexpr int kKeyBytes = panels(Config::kHeadDim) * Config::kTileN * kPanelRowBytes;
  static constexpr int kValueBytes = panels(Config::kHeadDimV) * Config::kTileN * kPanelRowBytes;
  // Without a buffer of its own, finished rows of out take the place of the queries.
  static constexpr int kTileBytes = Config::kOwnOut || kQueryBytes > kOutBytes ? kQueryBytes : kOutBytes;
  alignas(1024) char q[Config::kQueries][kTileBytes];
  alignas(1024) char out[Config::kOwnOut ? kOutBytes : 1024];
  alignas(1024) char k[Config::kStages][kKeyBytes];
  alignas(1024) char v[Config::kStages][kValueBytes];
  Ring<Config::kQueries> q_ring;
  Ring<Config::kStages> k_ring, v_ring;
  Tickets tickets;
};

template <typename Config>
struct WarpgroupFlash {
  static constexpr int kConsumers = Config::kTileM / 64;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  using Smem = WarpgroupSmem<Config>;
  using Core = WarpgroupAttention<Config>;
  static_assert(Config::kTileM % 64 == 0, "a warpgroup owns 64 rows");

  const AttentionParams& p;
  const TensorMaps& maps;
  Smem& smem;

  // Blocks of keys that the tile's last row, which sees most, needs.
  __device__ int block_count(const Place& place) const {
    const int last = min(place.first_row + Config::kTileM, p.q_len * Config::kPack) - 1;
    return (key_limit<Config>(p, last) + Config::kTileN - 1) / Config::kTileN;
  }

  struct Producer {
    WarpgroupFlash& kernel;
    RingCursor<Config::kQueries> q;
    RingCursor<Config::kStages> k, v;

    __device__ void load_queries(const Place& place) {
      Smem& smem = kernel.smem;
      q.wait_empty(smem.q_ring);
      barrier_arrive_expect(q.full(smem.q_ring), Smem::kQueryBytes);
#pragma unroll
      for (int panel = 0; panel < panels(Config::kHeadDim); ++panel)
        load_box(shared_address(smem.q[q.at]) + panel * Core::kQueryPanel, kernel.maps.q, q.full(smem.q_ring),
                 panel * kPanelColumns, 0, place.first_row / Config::kPack, place.head / Config::kPack, place.batch);
      q.next();
    }

    template <int kColumns>
    __device__ void load_block(char* buffer, const TensorMap& map, u32 full, const Place& place, int block) {
      barrier_arrive_expect(full, panels(kColumns) * Core::kKeyPanel);
#pragma unroll
      for (int panel = 0; panel < panels(kColumns); ++panel)
        load_box(shared_address(buffer) + panel * Core::kKeyPanel, map, full, panel * kPanelColumns,
                 block * Config::kTileN, place.kv_head, place.batch);
    }

    __device__ void load_keys(const Place& place, int block) {
      k.wait_empty(kernel.smem.k_ring);
      load_block<Config::kHeadDim>(kernel.smem.k[k.at], kernel.maps.k, k.full(kernel.smem.k_ring), place, block);
      k.next();
    }

    __device__ void load_values(const Place& place, int block) {
      v.wait_empty(kernel.smem.v_ring);
      load_block<Config::kHeadDimV>(kernel.smem.v[v.at], kernel.maps.v, v.full(kernel.smem.v_ring), place, block);
      v.next();
    }

    // In the order the consumers ask: the keys of the next block before the values of this one.
    __device__ void load_tile(const Place& place) {
      const int blocks = kernel.block_count(place);
      if (blocks == 0) return;
      load_keys(place, blocks - 1);
      load_queries(place);
      for (int block = blocks - 1; block >= 0; --block) {
        if (block > 0) load_keys(place, block - 1);
        load_values(place, block);
      }
    }
  };

  struct Consumer {
    WarpgroupFlash& kernel;
    const int group;  // this warpgroup's number
    RingCursor<Config::kQueries> q;
    RingCursor<Config::kStages> k, v;
    Core core;

    __device__ Consumer(WarpgroupFlash& owner, int number) : kernel(owner), group(number) {}

    __device__ u32 queries() const {
      return shared_address(kernel.smem.q) + q.at * Smem::kTileBytes + group * 64 * kPanelRowBytes;
    }
    __device__ bool first_thread() const { return thread_index() % kWarpgroup == 0; }

    __device__ void begin_scores() {
      k.wait_full(kernel.smem.k_ring);
      core.begin_scores(queries(), shared_address(kernel.smem.k) + k.at * Smem::kKeyBytes);
    }
    __device__ void begin_values(bool fresh) {
      v.wait_full(kernel.smem.v_ring);
      core.begin_values(shared_address(kernel.smem.v) + v.at * Smem::kValueBytes, fresh);
    }
    __device__ void release_keys() {
      if (first_thread()) barrier_arrive(k.empty(kernel.smem.k_ring));
      k.next();
    }
    __device__ void release_values() {
      if (first_thread()) barrier_arrive(v.empty(kernel.smem.v_ring));
      v.next();
    }

    // Ping-pong: warpgroups begin their products in turn, so that one's softmax runs under another's products.
    __device__ void take_turn() const {
      if constexpr (Config::kPingPong) named_sync(1 + kConsumers + group, 2 * kWarpgroup);
    }
    __device__ void pass_turn() const {
      if constexpr (Config::kPingPong)
        named_arrive(1 + kConsumers + (group + 1 == kConsumers ? 0 : group + 1), 2 * kWarpgroup);
    }

    __device__ int warp_row(const Place& place) const {
      return place.first_row + group * 64 + thread_index() % kWarpgroup / 32 * 16;
    }

    template <bool kMasked>
    __device__ void softmax(const Place& place, int block) {
      if constexpr (kMasked) core.mask(kernel.p, warp_row(place), block * Config::kTileN);
      core.template exponentiate<kMasked>(kernel.p.scale_log2);
    }

    // The values of the block before run under this block's softmax.
    template <bool kMasked>
    __device__ void step_overlapped(const Place& place, int block, bool fresh) {
      take_turn();
      begin_scores();
      begin_values(fresh);
      pass_turn();
      core.template wait_products<1>();
      release_keys();
      softmax<kMasked>(place, block);
      core.template wait_products<0>();
      release_values();
      core.rescale();
      core.pack_weights();
    }

    // All blocks but the first; the block before is still to be multiplied by its values.
    __device__ void walk(const Place& place, int block, int unmasked) {
      bool fresh = true;
      for (; block >= unmasked; --block, fresh = false) step_overlapped<true>(place, block, fresh);
      for (; block >= 0; --block, fresh = false) step_overlapped<false>(place, block, fresh);
      begin_values(fresh);
      core.template wait_products<0>();
      release_values();
    }

    __device__ void attend(const Place& place, int blocks) {
      // Blocks below this one are seen whole by the warpgroup's first row, and so by all.
      const int unmasked = key_limit<Config>(kernel.p, place.first_row + group * 64) / Config::kTileN;
      core.state = RowState();
      q.wait_full(kernel.smem.q_ring);
      take_turn();
      begin_scores();
      core.template wait_products<0>();
      pass_turn();
      release_keys();
      softmax<true>(place, blocks - 1);
      core.pack_weights();
      walk(place, blocks - 2, unmasked);
      if constexpr (Config::kOwnOut) release_queries();
    }

    __device__ void release_queries() {
      if (first_thread()) barrier_arrive(q.empty(kernel.smem.q_ring));
      q.next();
    }

    __device__ void finish(const Place& place, int blocks) {
      core.state.finish();
      store_lse<Config>(kernel.p, place, core.state, warp_row(place));
      if (blocks == 0) return store_zeros<Config>(kernel.p, place, warp_row(place));
      Smem& smem = kernel.smem;
      const u32 tile = shared_address(Config::kOwnOut ? smem.out : smem.q[q.at]) + group * 64 * kPanelRowBytes;
      if constexpr (Config::kOwnOut) {
        // The last store may still read.
        if (first_thread()) wait_stores_read();
        named_sync(1 + group, kWarpgroup);
      }
      write_out<Config>(core.out, core.state, tile);
      fence_async();
      named_sync(1 + group, kWarpgroup);
      if (first_thread()) send_out<Config>(tile, kernel.maps.out, place, place.first_row + group * 64);
      if constexpr (!Config::kOwnOut) {
        if (first_thread()) wait_stores_read();
        release_queries();
      }
    }
  };

  __device__ void produce() {
    Producer producer{*this};
    for (TileWalk<Config, true> walk(p, smem.tickets); walk.more(); walk.next())
      producer.load_tile(tile_place<Config>(p, walk.number));
  }

  __device__ void consume(int group) {
    Consumer consumer(*this, group);
    if (group == kConsumers - 1) consumer.pass_turn();  // the first warpgroup begins
    for (TileWalk<Config, false> walk(p, smem.tickets); walk.more(); walk.next()) {
      const Place place = tile_place<Config>(p, walk.number);
      const int blocks = block_count(place);
      if (blocks > 0) consumer.attend(place, blocks);
      consumer.finish(place, blocks);
    }
    wait_stores();
  }

  __device__ void init() {
    if (threadIdx.x == 0) {
      prefetch(maps.q);
      prefetch(maps.k);
      prefetch(maps.v);
      prefetch(maps.out);
      smem.q_ring.init(kConsumers);
      smem.k_ring.init(kConsumers);
      smem.v_ring.init(kConsumers);
      smem.tickets.ring.init(kConsumers * 4);
      fence_barrier_init();
    }
    __syncthreads();
  }

  __device__ void run() {
    init();
    const int group = warpgroup_index();
    if (group == kConsumers) {
      if constexpr (kConsumers > 1) give_up_registers<kConsumers == 2 ? 40 : 32>();
      if (threadIdx.x == kConsumers * kWarpgroup) produce();
    } else {
      if constexpr (kConsumers > 1) take_registers<kConsumers == 2 ? 232 : 160>();
      consume(group);
    }
  }
};

}  // namespace gqa

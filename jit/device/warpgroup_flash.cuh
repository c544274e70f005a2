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
  alignas(1024) char k[Config::kStages][kKeyBytes];
  alignas(1024) char v[Config::kStages][kValueBytes];
  alignas(Config::kOwnOut ? 1024 : 8) char out[Config::kOwnOut ? kOutBytes : 8];
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

  // Blocks of keys that the tile's last row, which sees most, needs. One at least: rows that see no key mask it all.
  __device__ int block_count(const Place& place) const {
    const int last = min(place.first_row + Config::kTileM, p.q_len * Config::kPack) - 1;
    return max(1, (key_limit<Config>(p, last) + Config::kTileN - 1) / Config::kTileN);
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
        load_box(shared_address(smem.q[q.at()]) + panel * Core::kQueryPanel, kernel.maps.q, q.full(smem.q_ring),
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
      load_block<Config::kHeadDim>(kernel.smem.k[k.at()], kernel.maps.k, k.full(kernel.smem.k_ring), place, block);
      k.next();
    }

    __device__ void load_values(const Place& place, int block) {
      v.wait_empty(kernel.smem.v_ring);
      load_block<Config::kHeadDimV>(kernel.smem.v[v.at()], kernel.maps.v, v.full(kernel.smem.v_ring), place, block);
      v.next();
    }

    // In the order the consumers ask: the keys of the next block before the values of this one.
    template <typename Walk>
    __device__ void load_tile(Walk& walk) {
      const Place place = tile_place<Config>(kernel.p, walk.number);
      const int blocks = kernel.block_count(place);
      walk.announce({place, blocks});
      walk.reserve();
      load_keys(place, blocks - 1);
      load_queries(place);
      for (int block = blocks - 1; block >= 0; --block) {
        if (block > 0) load_keys(place, block - 1);
        load_values(place, block);
      }
      walk.next();
    }
  };

  struct Consumer {
    WarpgroupFlash& kernel;
    const int group;  // this warpgroup's number
    // What is read next. Of the keys, the buffer before may still be held.
    RingCursor<Config::kQueries> q;
    RingCursor<Config::kStages> k, v;
    Core core;

    __device__ Consumer(WarpgroupFlash& owner, int number) : kernel(owner), group(number) {}

    __device__ u32 query_rows() const {
      return shared_address(kernel.smem.q) + q.at() * Smem::kTileBytes + group * 64 * kPanelRowBytes;
    }

    __device__ u32 key_rows(int buffer) const { return shared_address(kernel.smem.k) + buffer * Smem::kKeyBytes; }

    __device__ void begin_scores() {
      k.wait_full(kernel.smem.k_ring);
      core.begin_scores(query_rows(), key_rows(k.at()));
      k.next();
    }
    __device__ void begin_values(bool fresh) {
      v.wait_full(kernel.smem.v_ring);
      core.begin_values(shared_address(kernel.smem.v) + v.at() * Smem::kValueBytes, fresh);
    }
    __device__ void release_keys() { release(kernel.smem.k_ring, k.before()); }
    __device__ void release_queries() {
      release(kernel.smem.q_ring, q.at());
      q.next();
    }
    __device__ void release_values() {
      release(kernel.smem.v_ring, v.at());
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

    __device__ int warp_row(int first_row) const {
      return first_row + group * 64 + thread_index() % kWarpgroup / 32 * 16;
    }

    template <bool kMasked>
    __device__ void softmax(int first_row, int block) {
      if constexpr (kMasked) core.mask(kernel.p, warp_row(first_row), block * Config::kTileN);
      core.template softmax<kMasked>(kernel.p.scale_log2);
    }

    // The softmax of a block seen whole, at first without a look at its maxima. Where that does not do, its scores are
    // computed again; the keys are kept until then.
    __device__ void softmax_unseen() {
      const float scale_log2 = kernel.p.scale_log2;
      float sum[2];
      const bool fine = core.exponentiate_unseen(scale_log2, sum);
      if (named_all(1 + group, kWarpgroup, fine)) {
        core.accept_unseen(sum);
      } else {
        core.begin_scores(query_rows(), key_rows(k.before()));
        core.template wait_scores<0>();
        core.template softmax<false>(scale_log2);
      }
      release_keys();
    }

    // The values of the block before run under this block's softmax; out and weights are then up to date.
    template <bool kMasked>
    __device__ void step(int first_row, int block, bool fresh) {
      take_turn();
      begin_scores();
      begin_values(fresh);
      pass_turn();
      core.template wait_scores<1>();
      if constexpr (!kMasked && Config::kLazy == 2) {
        softmax_unseen();
      } else {
        release_keys();
        softmax<kMasked>(first_row, block);
      }
      core.template wait_values<0>();
      release_values();
      core.rescale();
      core.pack_weights();
    }

    // A tile's out and state, not yet normalised.
    __device__ void walk(int first_row, int blocks) {
      // Blocks below this one are seen whole by the warpgroup's first row, and so by all.
      const int unmasked = key_limit<Config>(kernel.p, first_row + group * 64) / Config::kTileN;
      core.state = RowState();
      q.wait_full(kernel.smem.q_ring);
      take_turn();
      begin_scores();
      pass_turn();
      core.template wait_scores<0>();
      release_keys();
      softmax<true>(first_row, blocks - 1);
      core.pack_weights();
      bool fresh = true;
      int block = blocks - 2;
      for (; block >= unmasked; --block, fresh = false) step<true>(first_row, block, fresh);
      for (; block >= 0; --block, fresh = false) step<false>(first_row, block, fresh);
      if constexpr (Config::kOwnOut) release_queries();
      begin_values(fresh);
      core.template wait_values<0>();
      release_values();
    }

    // The thread that sends rows out for its warpgroup.
    __device__ bool leader() const { return thread_index() % kWarpgroup == 0; }

    // The place is read where it is needed, not kept through the walk.
    __device__ void store(const volatile Place& at) {
      const Place place = {at.batch, at.head, at.kv_head, at.first_row};
      core.state.finish();
      store_lse<Config>(kernel.p, place, core.state, warp_row(place.first_row));
      const u32 rows = Config::kOwnOut ? shared_address(kernel.smem.out) + group * 64 * kPanelRowBytes : query_rows();
      if constexpr (Config::kOwnOut) {
        // The last store may still read.
        if (leader()) wait_stores_read();
        named_sync(1 + group, kWarpgroup);
      }
      write_out<Config>(core.out, core.state, rows);
      fence_async();
      named_sync(1 + group, kWarpgroup);
      if (leader()) send_out<Config>(rows, kernel.maps.out, place, place.first_row + group * 64);
      if constexpr (!Config::kOwnOut) {
        // Only the leader knows when the store has read.
        if (leader()) wait_stores_read();
        __syncwarp();
        release_queries();
      }
    }
  };

  __device__ void produce() {
    Producer producer{*this};
    ProducerWalk<Config> walk(p, smem.tickets);
    while (walk.more()) producer.load_tile(walk);
    walk.announce({Place{}, 0});
  }

  __device__ void consume(int group) {
    Consumer consumer(*this, group);
    if (group == kConsumers - 1) consumer.pass_turn();  // the first warpgroup begins
    for (ConsumerWalk walk(smem.tickets); walk.more(); walk.next()) {
      consumer.walk(walk.ticket().place.first_row, walk.ticket().blocks);
      consumer.store(walk.ticket().place);
    }
    wait_stores();
  }

  __device__ void init() {
    if (threadIdx.x == 0) {
      prefetch(maps.q);
      prefetch(maps.k);
      prefetch(maps.v);
      prefetch(maps.out);
      smem.q_ring.init(kConsumers * 4);
      smem.k_ring.init(kConsumers * 4);
      smem.v_ring.init(kConsumers * 4);
      smem.tickets.ring.init(kConsumers * 4);
      fence_barrier_init();
    }
    __syncthreads();
  }

  __device__ void run() {
    init();
    const int group = warpgroup_index();
    if (group == kConsumers) {
      give_up_registers<kConsumers == 1 ? 24 : kConsumers == 2 ? 40 : 32>();
      if (threadIdx.x == kConsumers * kWarpgroup) produce();
    } else {
      take_registers<kConsumers == 3 ? 160 : 232>();
      consume(group);
    }
  }
};

}  // namespace gqa

// warpgroup_flash.cuh: the warpgroup family's kernel (Hopper): a producer feeds kWarps / 4 consumer warpgroups by TMA;
// each walks the keys of its 64 query rows, or every other block of them, last block first. Shah et al.,
// "FlashAttention-3", 2024, for the two roles. Owns: who does what, and when each has its registers. Never: knows how a
// tile is numbered (schedule.cuh), loaded (warpgroup_producer.cuh) or computed (warpgroup_consumer.cuh). Threads:
// consumers first, then a producer warpgroup of which one thread works; roles meet at the rings' barriers.
#pragma once

#include "attention/wgmma_flash/page_copies.cuh"
#include "attention/wgmma_flash/warpgroup_halves.cuh"
#include "attention/wgmma_flash/warpgroup_producer.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

// What a launch hands over.
template <typename Config, bool = has_lists<Config>()>
struct WarpgroupArguments {
  const AttentionParams& p;
  const TensorMaps& maps;
  WarpgroupSmem<Config>& smem;
};
template <typename Config>
struct WarpgroupArguments<Config, true> {
  const AttentionParams& p;
  const TensorMaps& maps;
  const CacheParams& cache;
  WarpgroupSmem<Config>& smem;
};

template <typename Config>
struct WarpgroupFlash : WarpgroupArguments<Config> {
  using Smem = WarpgroupSmem<Config>;
  static constexpr int kConsumers = Config::kWarps / 4;
  using TileScheduler = typename Config::TileScheduler;
  static_assert(Config::kTileM % 64 == 0, "a warpgroup owns 64 rows");
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  // What a thread is launched with, in eights; setmaxnreg waits forever for more than all have together.
  static constexpr int kLaunchedRegisters = 65536 / (kThreads * Config::kResident) / 8 * 8;
  static_assert(Config::kProducerRegisters + kConsumers * Config::kConsumerRegisters <=
                    (kConsumers + 1) * kLaunchedRegisters,
                "the roles share what was launched");
  // A block's producers: TMA, by bytes, or each warp that copies. Those who read tickets beside the consumers.
  static constexpr int kProducers = Smem::kCopiesPages ? Smem::kCopyWarps : 1;
  static constexpr int kTicketReaders = Smem::kCopiesPages ? Smem::kCopyWarps * 32 : Smem::kValuesApart ? 1 : 0;
  static constexpr int kRingsAreThere = 4;  // a named barrier; the warpgroups' own are below

  using Arguments = WarpgroupArguments<Config>;
  using Arguments::maps;
  using Arguments::p;
  using Arguments::smem;

  // Consumers'.
  __device__ void write_ones() {
    for (int i = threadIdx.x; i < Smem::kOnesBytes / 4; i += kConsumers * kWarpgroup)
      reinterpret_cast<u32*>(smem.out + Smem::kOutBytes)[i] = Config::Kv::pack(1.f, 1.f);
    fence_async();
  }

  // The warps of the producer's warpgroup.
  enum ProducerWarp { kProducing, kZeroingTails, kLoadingValues };
  __device__ static bool in_warp(ProducerWarp warp) { return threadIdx.x / 32 == kConsumers * 4 + warp; }

  // The thread that works. Where it asks for many boxes, elect.sync picks it: then the compiler knows that it is alone,
  // and issues each box without a loop over lanes. It must stand before the branch, and so all warps elect one.
  __device__ static bool is_producer() {
    if constexpr (!has_lists<Config>()) return threadIdx.x == kConsumers * kWarpgroup;
    const bool leads = elected();
    return in_warp(kProducing) && leads;
  }
  __device__ static bool loads_values() {
    const bool leads = elected();
    return in_warp(kLoadingValues) && leads;
  }

  // The working producer's: it need not wait for anyone to use them.
  __device__ void init_rings() {
    prefetch(maps.q);
    if constexpr (!Smem::kCopiesPages) {
      prefetch(maps.k);
      prefetch(maps.v);
    }
    prefetch(maps.out);
    smem.q_ring.init(kConsumers * 4);
    smem.k_ring.init(Smem::kCluster * kConsumers / Smem::kShare * 4, kProducers);
    smem.v_ring.init(Smem::kCluster * kConsumers / Smem::kShare * 4, kProducers);
    smem.tickets.ring.init(kConsumers * kWarpgroup + kTicketReaders);
    if constexpr (TileScheduler::kBroadcastsTiles && Smem::kCluster > 1) smem.tile_broadcast.init();
    if constexpr (Smem::kShare > 1) smem.handover.init(kWarpgroup, kWarpgroup);
    if constexpr (Smem::kCutsValues) smem.tails.ring.init(1);
    if constexpr (Smem::kCopiesPages) smem.tile_ends.ring.init(1);
    fence_barrier_init();
  }

  // Nor may others of the cluster arrive or load before.
  __device__ void begin_together() {
    if constexpr (Smem::kCluster > 1) {
      cluster_arrive_relaxed();  // the fence showed the barriers
      cluster_wait();
    }
  }

  // Others may still arrive here or load here until they have ended, too.
  __device__ void end_together() {
    if constexpr (Smem::kCluster > 1) {
      cluster_arrive();
      cluster_wait();
    }
  }

  __device__ void produce() {
    WarpgroupProducer<Config> producer{{}, {}, {}, p, maps, smem};
    if constexpr (has_lists<Config>()) {
      wait_for_grids_before();  // they may still write the lists
      producer.cache = &this->cache;
    }
    ProducerWalk<Config> walk(p, smem.tickets, smem.tile_broadcast);
    if constexpr (queries_packed<Config>()) walk.open_list(&this->cache);
    while (walk.more()) producer.load_tile(walk);
    if constexpr (TileScheduler::kHasParts) producer.load_parts(walk);
    walk.announce({Place{}, 0});
    if constexpr (Smem::kCutsValues && !Smem::kValuesApart) producer.end_tails(smem.tails);
    if constexpr (!Smem::kCopiesPages)  // else who copies says so
      let_next_grid_begin();  // not before: its CTAs would take the places of this one's as they end, out of balance
  }

  __device__ void produce_values() {
    wait_for_grids_before();
    WarpgroupProducer<Config> producer{{}, {}, {}, p, maps, smem};
    producer.cache = &this->cache;
    producer.load_values_apart();
    producer.end_tails(smem.tails);
  }

  // Whether this warp copies pages: those beside the producer's do.
  __device__ static bool copies() { return Smem::kCopiesPages && !in_warp(kProducing); }
  __device__ void copy_pages() {
    PageCopier<Config>(p, this->cache, smem, threadIdx.x / 32 - kConsumers * 4 - 1).run();
  }

  // A warp's beside the producer.
  __device__ static bool zeroes_tails() { return Smem::kCutsValues && in_warp(kZeroingTails); }

  __device__ void zero_value_tails() {
    zero_tails<Config::kTileN, panels(Config::kHeadDimV), Smem::kValueBytes>(smem.tails, smem.v[0],
                                                                             shared_address(smem.v_ring.full));
  }

  __device__ static int first_block(const volatile Ticket& ticket) {
    if constexpr (TileScheduler::kHasParts) return told_same<Config>(ticket.first);
    return 0;
  }

  // Where it calls a function, the assembler puts all products in a row.
  __device__ __forceinline__ void consume(int group, const ScoreParams* numbers) {
    if constexpr (Smem::kOnesColumn)
      consume_by(WarpgroupHalves<Config>{{p, maps, smem, group}}, numbers);
    else
      consume_by(WarpgroupConsumer<Config>{p, maps, smem, group}, numbers);
  }

  template <typename Consumer>
  __device__ __forceinline__ void consume_by(Consumer consumer, const ScoreParams* numbers) {
    consumer.core.set_numbers(numbers);
    consumer.begin();
    ConsumerWalk walk(smem.tickets);
    for (int blocks; (blocks = told_same<Config>(walk.blocks())) > 0; walk.next()) {
      consumer.core.set_sequence(walk.ticket().words);
      consumer.walk(told_same<Config>(walk.ticket().place.first_row), blocks, first_block(walk.ticket()));
      if constexpr (Smem::kShare > 1) consumer.skip_to_next_tile(blocks);
      if (consumer.join(walk.ticket().words)) consumer.store(walk.ticket().place);
    }
    consumer.end();
  }

  // numbers: of the scores; null where the Config needs none.
  __device__ void run(const ScoreParams* numbers = nullptr) {
    const int group = warpgroup_index();
    if (group == kConsumers) {
      const bool works = is_producer(), loads = Smem::kValuesApart && loads_values();
      if (works) init_rings();
      if (zeroes_tails() || (Smem::kValuesApart && in_warp(kLoadingValues)) || copies())
        named_sync(kRingsAreThere, kThreads);
      else
        named_arrive(kRingsAreThere, kThreads);
      begin_together();
      give_up_registers<Config::kProducerRegisters>();
      if (works) produce();
      if constexpr (Smem::kValuesApart)
        if (loads) produce_values();
      if constexpr (Smem::kCutsValues)
        if (zeroes_tails()) zero_value_tails();
      if constexpr (Smem::kCopiesPages)
        if (copies()) copy_pages();
    } else {
      if constexpr (Smem::kOnesColumn) write_ones();
      named_sync(kRingsAreThere, kThreads);
      begin_together();
      take_registers<Config::kConsumerRegisters>();
      consume(group, numbers);
    }
    end_together();
  }
};

}  // namespace gqa

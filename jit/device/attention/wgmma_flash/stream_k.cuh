// stream_k.cuh: stream-K for the tiles of the last partial wave: each CTA or cluster takes as many blocks of keys, and
// where a tile's parts meet, the last to arrive adds them up, in the order of their keys, so that it does not matter
// who it is. Osama et al., "Stream-K", 2023. Owns: StreamK, that tile scheduler: who takes which blocks, and the fix-up
// in the workspace (StreamKFixup). Never: waits for another CTA. Threads: StreamK's Tiles: one producer thread;
// StreamKFixup: the 128 threads of a warpgroup, each for its own fragments.
#pragma once

#include "attention/common/arrival.cuh"
#include "attention/wgmma_flash/static_rounds.cuh"
#include "attention/wgmma_flash/warpgroup_share.cuh"
#include "ptx/cluster.cuh"
#include "ptx/warpgroup.cuh"

namespace gqa {

// Which of a tile's parts a ticket is.
struct KeyPart {
  int slot;        // of the workspace
  int parts;       // 0 or 1: it is all of the tile
  int first_slot;  // of the tile's parts
  int tile;        // of the last partial wave

  __device__ SchedulerWords words() const { return {{slot, parts, first_slot, tile}}; }
  __device__ static KeyPart of(const volatile SchedulerWords& words) {
    return {words.word[0], words.word[1], words.word[2], words.word[3]};
  }
};

template <typename Config>
struct StreamKFixup {
  using Core = WarpgroupAttention<Config>;
  static constexpr int kGroups = Config::kWarps / 4;
  static constexpr int kPart = (Core::kAllOuts + 1) * kWarpgroup;  // float4: out, and the rows' maxima and sums

  const AttentionParams& p;
  const int group;

  // Which of a CTA's, or cluster's, warpgroups.
  __device__ int place() const { return cluster_rank<Config>() * kGroups + group; }
  __device__ float4* at(int slot) const {
    return reinterpret_cast<float4*>(p.partials) +
           (static_cast<long long>(slot) * cluster_size<Config>() * kGroups + place()) * kPart +
           thread_index() % kWarpgroup;
  }

  // Whether the other parts were there before.
  __device__ bool arrive_last(const KeyPart& part) const {
    named_sync(1 + group, kWarpgroup);
    bool last = true;
    if (thread_index() % kWarpgroup == 0)
      last = counts_last(p.counters + part.tile * cluster_size<Config>() * kGroups + place(), part.parts);
    return named_all(1 + group, kWarpgroup, last);
  }

  __device__ void add_part(Core& core, int slot) const {
    const float4* const from = at(slot);
    merge_part<Config>(core, p.scale_log2, [&](int n) { return __ldcg(from + n * kWarpgroup); });
  }

  // Whether core now has all of the tile's keys; else another warpgroup will have.
  __device__ bool fix_up(Core& core, const KeyPart& part) const {
    leave_part<Config>(core, at(part.slot));
    if (!arrive_last(part)) return false;
    core.clear();
#pragma unroll 1
    for (int i = 0; i < part.parts; ++i) add_part(core, part.first_slot + i);
    return true;
  }
};

struct StreamK : StaticRounds {
  static constexpr bool kHasParts = true;

  template <typename Config>
  struct Tiles : StaticRounds::Tiles<Config> {
    using Rounds = StaticRounds::Tiles<Config>;
    using Rounds::p;
    using Rounds::Rounds;

    // The tiles of the last partial wave.
    __device__ int tiles_left() const { return p.tiles % static_cast<int>(gridDim.x / cluster_size<Config>()); }
    __device__ bool more() const { return this->number < p.tiles - tiles_left(); }

    // The keys of those tiles, end to end, in shares of as many blocks, one for each walker (a CTA, or a cluster).
    template <typename Load>
    __device__ void each_part(int blocks, Load load) const {
      const int walkers = gridDim.x / cluster_size<Config>(), walker = blockIdx.x / cluster_size<Config>();
      const int left = tiles_left(), share = (left * blocks + walkers - 1) / walkers;
      const int end = min((walker + 1) * share, left * blocks);
#pragma unroll 1
      for (int at = walker * share; at < end;) {
        const int tile = at / blocks, first = at - tile * blocks, last = min(blocks, first + end - at);
        const int first_walker = tile * blocks / share, last_walker = ((tile + 1) * blocks - 1) / share;
        // From one piece to the next the walker or the tile is another: their sum tells all apart.
        const KeyPart part = {walker + tile, last_walker - first_walker + 1, first_walker + tile, tile};
        load(p.tiles - left + tile, first, last, part.words());
        at += last - first;
      }
    }
  };

  template <typename Config>
  __device__ static bool join(const AttentionParams& p, int group, WarpgroupAttention<Config>& core,
                              const volatile SchedulerWords& words) {
    const KeyPart part = KeyPart::of(words);
    return part.parts < 2 || StreamKFixup<Config>{p, group}.fix_up(core, part);
  }
};

}  // namespace gqa

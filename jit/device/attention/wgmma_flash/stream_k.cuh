// stream_k.cuh: stream-K for the tiles of the last partial wave: each CTA or cluster takes as many blocks of keys, and
// where a tile's parts meet, the last to arrive adds them up, in the order of their keys, so that it does not matter
// who it is. Osama et al., "Stream-K", 2023. Owns: who takes which blocks (StreamK), and the fix-up in the workspace
// (StreamKFixup). Never: waits for another CTA. Threads: StreamK: one producer thread; StreamKFixup: the 128 threads of
// a warpgroup, each for its own fragments.
#pragma once

#include "attention/common/arrival.cuh"
#include "attention/wgmma_flash/schedule.cuh"
#include "attention/wgmma_flash/warpgroup_share.cuh"

namespace gqa {

// The keys of those tiles, end to end, in shares of as many blocks, one for each walker (a CTA, or a cluster).
template <typename Config>
struct StreamK {
  const AttentionParams& p;
  int blocks;  // of each tile's keys

  // Calls load(tile's number, first block, end, part) for each tile of this walker's share.
  template <typename Load>
  __device__ void each_piece(Load load) const {
    const int walkers = gridDim.x / cluster_size<Config>(), walker = blockIdx.x / cluster_size<Config>();
    const int left = partial_wave_tiles<Config>(p), share = (left * blocks + walkers - 1) / walkers;
    const int end = min((walker + 1) * share, left * blocks);
#pragma unroll 1
    for (int at = walker * share; at < end;) {
      const int tile = at / blocks, first = at - tile * blocks, last = min(blocks, first + end - at);
      const int first_walker = tile * blocks / share, last_walker = ((tile + 1) * blocks - 1) / share;
      // From one piece to the next the walker or the tile is another: their sum tells all apart.
      load(p.tiles - left + tile, first, last,
           KeyPart{walker + tile, last_walker - first_walker + 1, first_walker + tile, tile});
      at += last - first;
    }
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
    merge_part<Config>(core, score_scale<Config>(p), [&](int n) { return __ldcg(from + n * kWarpgroup); });
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

}  // namespace gqa

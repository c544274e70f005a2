// warpgroup_consumer.cuh: a warpgroup's walk over the keys of its 64 query rows.
// Owns: its side of the rings, and what runs under what: the values of one block under the softmax of the next, the
// store of a tile under the walk of the next.
// Never: computes (warpgroup_attention.cuh does) or loads.
// Threads: the 128 threads of a warpgroup.
#pragma once

#include "attention/wgmma_flash/epilogue.cuh"
#include "attention/wgmma_flash/schedule.cuh"
#include "attention/wgmma_flash/warpgroup_hints.cuh"
#include "attention/wgmma_flash/warpgroup_share.cuh"
#include "ptx/cluster.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupConsumer {
  using Smem = WarpgroupSmem<Config>;
  static constexpr int kShare = Smem::kShare;
  // Whether warpgroups leave out what none of their rows sees, though another's, or another CTA's, may.
  static constexpr bool kSkips = Walk<Config>::kRowsDiffer && kShare == 1;
  using BlockScores = float[Config::kTileN / 8][4];

  const AttentionParams& p;
  const TensorMaps& maps;
  Smem& smem;
  const int group;  // this warpgroup's number
  RingCursor<Smem::kQueries> q;
  RingCursor<Config::kStages, kShare> k,
      v;  // what is read next; of the keys, the buffer before may not be released yet
  WarpgroupAttention<Config> core;
  u32 weights[Config::kTileN / 16][4];

  // Which 64 rows of the tile, where they begin, and which share of their keys.
  __device__ int rows() const { return group / kShare; }
  __device__ int first_of_rows(int first_row) const { return first_row + rows() * Smem::kGroupStep; }
  __device__ int part() const { return group % kShare; }
  __device__ u32 query_rows() const { return shared_address(smem.q[q.at()]) + rows() * 64 * kPanelRowBytes; }
  // The products' operands; `first_key`: of the buffer's.
  __device__ u64 queries() const { return operand(query_rows(), 0); }
  __device__ u64 keys(int buffer, int first_key = 0) const {
    const u32 first = shared_address(smem.k), bytes = buffer * Smem::kKeyBytes + first_key * kPanelRowBytes;
    if constexpr (kMovesOperands<Config>) return advance_low(core.key_operand(first), bytes);
    return core.key_operand(first + bytes);
  }
  // The ones stand as the panel beside the values.
  __device__ u64 values(int buffer, int first_key = 0) const {
    const u32 first = shared_address(smem.v), bytes = buffer * Smem::kValueBytes + first_key * kPanelRowBytes;
    if constexpr (Smem::kOnesColumn) return advance_first_panel_low(operand(first, smem.ones() - first), bytes);
    if constexpr (kMovesOperands<Config>) return advance_low(operand(first, Smem::kValuePanel), bytes);
    return operand(first + bytes, Smem::kValuePanel);
  }
  __device__ int warp_row(int first_row) const {
    return first_of_rows(first_row) + thread_index() % kWarpgroup / 32 * 16;
  }

  template <int kFragments>
  __device__ void begin_scores(float (&scores)[kFragments][4]) {
    k.wait_full(smem.k_ring);
    core.begin_scores(scores, queries(), keys(k.at()));
    k.next();
  }
  __device__ void begin_values() {
    v.wait_full(smem.v_ring);
    core.begin_values(weights, values(v.at()));
  }
  __device__ void release_keys() { release_to<Config>(kKeyLoader, smem.k_ring, k.before()); }
  __device__ void release_values() {
    release_to<Config>(kValueLoader<Config>, smem.v_ring, v.at());
    v.next();
  }
  __device__ void release_queries() {
    release(smem.q_ring, q.at());
    q.next();
  }

  template <int kFragments>
  __device__ void softmax_masked(float (&scores)[kFragments][4], int first_row, int block) {
    core.mask(scores, core.walk(p), warp_row(first_row), block * Config::kTileN);
    core.softmax(scores, p.scale_log2);
  }

  // Whether `mine` holds in the whole warpgroup.
  __device__ bool all_agree(bool mine) const { return told_agreed<Config>(named_all(1 + group, kWarpgroup, mine)); }

  // The softmax of a block that no mask touches: speculative, under the stale maxima. Where one does not serve, they
  // are renewed; where a row sum overflowed, the exact fallback computes the scores again. The keys are not released
  // until then.
  __device__ void softmax_speculative(BlockScores& scores) {
    float sum[2];
    const bool fine = core.exponentiate_speculatively(scores, p.scale_log2, sum);
    if (all_agree(fine)) {
      core.accept_speculation(sum);
    } else if (all_agree(core.can_renew(sum, p.scale_log2))) {
      core.renew(scores, sum, p.scale_log2);
    } else {
      core.begin_scores(scores, queries(), keys(k.before()));
      core.template wait_scores<0>(scores);
      core.softmax(scores, p.scale_log2);
    }
    release_keys();
  }

  // This block's scores and the values of the block before, begun together; the values run under the softmax. Then out
  // and weights are up to date.
  template <bool kExact>
  __device__ void step(int first_row, int block) {
    BlockScores scores;
    begin_scores(scores);
    begin_values();
    core.template wait_scores<1>(scores);
    if constexpr (kExact) {
      release_keys();
      softmax_masked(scores, first_row, block);
    } else {
      softmax_speculative(scores);
    }
    core.template wait_values<0>();
    release_values();
    core.rescale();
    pack_weights<Config>(scores, weights);
  }

  // A tile's first step, with no block before it; kKeys: of the block's, the first that may be seen.
  template <int kKeys = Config::kTileN>
  __device__ void first_step(int first_row, int block) {
    float scores[kKeys / 8][4];
    begin_scores(scores);
    core.template wait_scores<0>(scores);
    release_keys();
    softmax_masked(scores, first_row, block);
    pack_weights<Config>(scores, weights);
  }

  __device__ void begin() { k.passed = v.passed = part(); }

  // After a tile of so many blocks: past those of the others.
  __device__ void skip_to_next_tile(int blocks) {
    const int skipped = blocks - (blocks + kShare - 1 - part()) / kShare * kShare;
    k.passed += skipped;
    v.passed += skipped;
  }

  // A full barrier tells a round from the next but one only to who saw the round before: where the number of blocks is
  // odd, a buffer's values were the first part's. Before this part's first values, all of the tile before have come.
  __device__ void wait_for_first_part() {
    if constexpr (kShare > 1)
      if (part() > 0) KeyShare<Config>(smem, q.passed).wait_taken();
  }

  // Blocks that only others' rows see go by, awaited all the same: see wait_for_first_part(). Keys and values by turns,
  // as they come: there may be more of them than buffers.
  __device__ void pass(int blocks) {
    for (; blocks > 0; --blocks) {
      k.wait_full(smem.k_ring);
      k.next();
      release_keys();
      v.wait_full(smem.v_ring);
      release_values();
    }
  }

  // Keys that this warpgroup's rows see. One at least: rows that see none mask it all.
  __device__ int seen_by_rows(int first_row) const {
    const int first = first_of_rows(first_row);
    return first < 0 ? 1 : max(1, core.walk(p).seen_before(first + 64));
  }

  // Whether of this block no more than the first half is seen.
  __device__ static bool half_is_seen(int block, int seen) {
    return seen - block * Config::kTileN <= Config::kTileN / 2;
  }

  // Blocks below this one are seen whole by the warpgroup's first row, and so by all.
  __device__ int first_masked(int first_row) const {
    return core.walk(p).limit(first_of_rows(first_row)) / Config::kTileN;
  }

  // Blocks from this one on are exact, where those from `masked` on are masked and `block` comes next.
  __device__ static int first_exact(int masked, int block, int first) {
    if constexpr (kExactBlocks<Config> == 0) return masked;
    return max(first, min(masked, block + 1) - kExactBlocks<Config> * kShare);
  }

  // The first step, of half a block where the rows see no more of it.
  __device__ void begin_walk(int first_row, int block, int seen) {
    if constexpr (halves_tiles<Config>())
      if (half_is_seen(block, seen)) return first_step<Config::kTileN / 2>(first_row, block);
    first_step(first_row, block);
  }

  // A tile with fewer blocks than parts leaves this one nothing.
  __device__ void walk_nothing() {
    wait_for_first_part();
    release_queries();
  }

  // Whether none of this warpgroup's rows exist, in a tile whose rows all see the same keys.
  __device__ bool has_no_rows(int first_row) const {
    return !Walk<Config>::kRowsDiffer && kShare == 1 && first_of_rows(first_row) < 0;
  }
  __device__ void walk_past(int blocks) {
    pass(blocks);
    release_queries();
  }

  // A tile's out and state, not yet normalised, of this part of its keys: the blocks before `blocks`, from the last to
  // `first`.
  __device__ void walk(int first_row, int blocks, int first) {
    const int masked = first_masked(first_row);
    core.clear();
    q.wait_full(smem.q_ring);
    if (has_no_rows(first_row)) return walk_past(blocks - first);
    core.load_q_regs(query_rows());
    int block = blocks - 1 - part();
    if (kShare > 1 && block < 0) return walk_nothing();
    if constexpr (kSkips) {
      // The last of the tile's blocks may be past what is seen.
      const int seen = seen_by_rows(first_row);
      const int hidden = block - (seen - 1) / Config::kTileN;
      pass(hidden);
      block -= hidden;
      begin_walk(first_row, block, seen);
    } else {
      first_step(first_row, block);
    }
    wait_for_first_part();
    block -= kShare;
    const int exact = first_exact(masked, block, first);
    for (; block >= exact; block -= kShare) step<true>(first_row, block);
    for (block -= first; block >= 0; block -= kShare) step<false>(first_row, block);
    release_queries();
    begin_values();
    core.template wait_values<0>();
    release_values();
  }

  // One warpgroup's rows of out from all parts of the keys. False: they are another's to store.
  __device__ bool join(const volatile SchedulerWords& words) {
    if (!Config::TileScheduler::template join<Config>(p, group, core, words)) return false;
    if constexpr (kShare > 1) {
      const KeyShare<Config> share(smem, q.passed - 1);
      if (part() > 0) {
        share.hand_over(core);
        return false;
      }
      share.take_over(core, p.scale_log2);
    }
    return true;
  }

  __device__ void end() {
    if constexpr (Smem::kOutParts > 0) wait_stores();
  }

  // Out's panels from kFirst on, through a buffer, each once what was there has left it.
  template <int kFirst>
  __device__ void send_panels(const Place& place, const float (&inverse)[2]) {
    constexpr int kPanels = Smem::kPanelsAtOnce, kSlot = kFirst % Smem::kOutPanels;
    const bool leader = thread_index() % kWarpgroup == 0;
    const int offset = kSlot * Smem::kQueryPanel + rows() * 64 * kPanelRowBytes;
    const u32 finished = shared_address(smem.out) + offset;
    if constexpr (kSlot == 0 || kFirst >= Smem::kOutPanels) {
      if (leader) wait_stores_read<kFirst == 0 ? 0 : Smem::kOutPanels / kPanels - 1>();
      named_sync(1 + group, kWarpgroup);
    }
    write_out<Config, kFirst, kPanels>(core.out, inverse, finished);
    fence_async();
    named_sync(1 + group, kWarpgroup);
    const int first_row = first_of_rows(place.first_row);
    if (queries_packed<Config>() && !core.has_row(p, first_row + 63))
      store_out<Config, kFirst, kPanels>(smem.out + offset, p, core, place, first_row);
    // Rows below 0 do not exist; TMA refuses to store at such a place.
    else if (leader && first_row >= 0)
      send_out<Config, kFirst, kPanels>(finished, maps.out, core, place, first_row);
    if constexpr (kFirst + kPanels < panels(Config::kHeadDimV)) send_panels<kFirst + kPanels>(place, inverse);
  }

  // The place is read only here, not kept through the walk.
  __device__ void store(const volatile Place& at) {
    const Place place = {at.batch, at.head, at.kv_head, at.first_row};
    core.finish();
    if constexpr (!Smem::kOnesColumn) store_lse<Config>(p, core, place, core.state, warp_row(place.first_row));
    float inverse[2];
    invert<Config>(core.out, core.state, inverse);
    if constexpr (Smem::kOutParts > 0)
      send_panels<0>(place, inverse);
    else
      store_rows<Config>(p, core, place, core.out, inverse, warp_row(place.first_row));
  }
};

}  // namespace gqa

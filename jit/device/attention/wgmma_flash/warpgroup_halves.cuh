// warpgroup_halves.cuh: a warpgroup's walk over the keys of its 64 query rows, half a block at a time: the softmax of
// one half runs beside PV and the next QK of the other, in the registers of one block. A column of ones beside the
// values makes PV sum the weights. Owns: that order of work; the exact fallback to whole blocks, under a mask or where
// a half overflowed the speculative softmax; and which of two blocks' keys are not released until their scores stand.
// Never: masks beside MMAs.
// Threads: the 128 threads of a warpgroup.
#pragma once

#include "attention/wgmma_flash/warpgroup_consumer.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupHalves : WarpgroupConsumer<Config> {
  using Consumer = WarpgroupConsumer<Config>;
  using Smem = WarpgroupSmem<Config>;
  static constexpr int kKeys = Config::kTileN / 2;
  static_assert(!Smem::kKeysTransposed && Smem::kShare == 1, "halves are rows of a block");

  using Consumer::core;
  using Consumer::group;
  using Consumer::k;
  using Consumer::p;
  using Consumer::smem;
  using Consumer::v;

  float scores[2][kKeys / 8][4];
  int block = 0;                           // comes next; below it, what is still to come
  SpeculativeWeights<Config> speculative;  // kept, since the loop's instructions are its limit

  // Both halves as one block's, and a half of the block's weights.
  using BlockScores = typename Consumer::BlockScores;
  using HalfWeights = u32[kKeys / 16][4];
  __device__ BlockScores& block_scores() { return reinterpret_cast<BlockScores&>(scores); }
  __device__ HalfWeights& weights_of(int half) {
    return reinterpret_cast<HalfWeights&>(this->weights[half * (kKeys / 16)]);
  }

  __device__ u64 keys_of(int half) const { return this->keys(k.at(), half * kKeys); }
  __device__ u64 values_of(int half) const { return this->values(v.at(), half * kKeys); }

  // Weights are taken under the maxima that there are now.
  __device__ void take_maxima() {
    speculative = {p.scale_log2, {core.offset(0, p.scale_log2), core.offset(1, p.scale_log2)}};
  }

  // Until all products have ended, those of so many halves' scores among them.
  template <int kFirst, int kCount>
  __device__ void wait() {
    wgmma_wait<0>();
#pragma unroll
    for (int half = kFirst; half < kFirst + kCount; ++half) core.take_scores(scores[half]);
    pin(core.out);
  }

  // ---- Exact blocks: their halves have their maxima in common, since what one of them raised the other's weights
  // would not know of. After a block its weights are there, its PV is not begun.

  // The block's scores; beside them the values of the block before, where there is one.
  template <bool kValues, int kHalves>
  __device__ void multiply_block() {
    k.wait_full(smem.k_ring);
    if constexpr (kValues) v.wait_full(smem.v_ring);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if constexpr (kValues)
        core.begin_both(scores[half], this->queries(), keys_of(half), weights_of(half), values_of(half));
      else
        core.begin_scores(scores[half], this->queries(), keys_of(half));
    }
    wait<0, kHalves>();
  }

  __device__ void release_block() {
    k.next();
    this->release_keys();
  }

  __device__ void weigh_block(int first_row) {
    this->softmax_masked(block_scores(), first_row, block--);
    core.rescale();
    pack_weights<Config>(block_scores(), this->weights);
  }

  // The first half of a tile's first block, where no row sees more of it.
  __device__ void exact_half(int first_row) {
    multiply_block<false, 1>();
    release_block();
    this->softmax_masked(scores[0], first_row, block--);
    pack_weights<Config>(scores[0], this->weights);
  }

  // A block with none before it whose values are not counted. If its keys had been passed, its first half is.
  __device__ void exact_block(int first_row) {
    const bool half_counted = k.passed != v.passed;
    k.passed = v.passed;
    multiply_block<false, 2>();
    release_block();
    if (half_counted) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[0][n][c] = negative_infinity();
    }
    weigh_block(first_row);
  }

  __device__ void exact_beside_values(int first_row) {
    multiply_block<true, 2>();
    release_block();
    this->release_values();
    weigh_block(first_row);
  }

  // ---- Speculative blocks, by halves

  // The softmax of half kMine beside the values of the other half and, where there are any, its next scores. False
  // where the stale maxima do not do, by one test. Step 0 ends with values of half 1, the last of their block.
  template <int kMine, bool kScores>
  __device__ bool half_step() {
    constexpr int kOther = 1 - kMine;
    if constexpr (kScores)
      core.begin_both(scores[kOther], this->queries(), keys_of(kOther), weights_of(kOther), values_of(kOther));
    else
      core.begin_values(weights_of(kOther), values_of(kOther));
    const bool fine = speculative.weigh(scores[kMine], weights_of(kMine));
    const bool all_fine = this->all_agree(fine);
    wait<kOther, kScores>();
    if constexpr (kMine == 0) this->release_values();
    return all_fine;
  }

  // From a block whose weights are there and whose values are not begun to `first`, of which the weights of half 1 are
  // there then; or to one on the way that falls back.
  __device__ void walk_halves(int first) {
    take_maxima();
    k.wait_full(smem.k_ring);
    v.wait_full(smem.v_ring);
    core.begin_both(scores[0], this->queries(), keys_of(0), weights_of(0), values_of(0));
    wait<0, 1>();
    for (; block > first; --block) {
      if (!half_step<0, true>()) return;
      k.next();
      k.wait_full(smem.k_ring);
      v.wait_full(smem.v_ring);
      if (!half_step<1, true>()) return;
      this->release_keys();
    }
    if (!half_step<0, true>()) return;
    k.next();
    v.wait_full(smem.v_ring);
    if (!half_step<1, false>()) return;
    this->release_keys();
    --block;
  }

  // A tile's out and state, not yet normalised, of the blocks before `blocks`, from the last to `first`. Where a half
  // falls back, so many blocks are exact: one, or where fewer than the last time went by halves since then, twice as
  // many as then.
  __device__ void walk(int first_row, int blocks, int first) {
    const int seen = this->seen_by_rows(first_row);
    block = Consumer::kSkips ? (seen - 1) / Config::kTileN : blocks - 1;
    core.clear();
    this->q.wait_full(smem.q_ring);
    if (this->has_no_rows(first_row)) return this->walk_past(blocks - first);
    core.load_q_regs(this->query_rows());
    this->pass(blocks - 1 - block);
    bool half = this->half_is_seen(block, seen), halved = false;
    int last = this->first_exact(this->first_masked(first_row), block - 1, first);  // of the exact blocks
    for (int fallbacks = 0;;) {
      if (half)
        exact_half(first_row);
      else
        exact_block(first_row);
      half = false;
      while (block >= last) exact_beside_values(first_row);
      const int from = block;
      halved = block >= first;
      if (halved) walk_halves(first);
      if (block < first) break;
      fallbacks = from - block >= fallbacks ? 1 : 2 * fallbacks;
      last = max(first, block + 1 - fallbacks);
    }
    this->release_queries();
    v.wait_full(smem.v_ring);
    if (!halved) core.begin_values(weights_of(0), values_of(0));
    core.begin_values(weights_of(1), values_of(1));
    core.template wait_values<0>();
    this->release_values();
  }
};

}  // namespace gqa

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
  static constexpr bool kFoldedScale = folded_scale<Config>();
  static_assert(!Smem::kKeysTransposed && Smem::kShare == 1, "halves are rows of a block");

  using Consumer::core;
  using Consumer::group;
  using Consumer::k;
  using Consumer::p;
  using Consumer::smem;
  using Consumer::v;

  float scores[2][kKeys / 8][4];
  int block = 0;                            // comes next; below it, what is still to come
  const volatile Ticket* ticket = nullptr;  // of kFoldedScale: the tile's
  bool scaled = false;               // of kFoldedScale: Q is, else the scores of exact blocks, and all blocks are exact
  static constexpr float kFar = 64;  // powers of two: weights are then off by 0.2 % as a rule
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

  __device__ RowOffsets offsets() const { return {smem.offsets() + group * RowOffsets::kBytes}; }

  // Weights are taken under the maxima that there are now.
  __device__ void take_maxima() {
    const float scale = score_scale<Config>(p), offset[2] = {core.offset(0, scale), core.offset(1, scale)};
    if constexpr (kFoldedScale) {
      offsets().write(offset[0], offset[1]);
      named_sync(1 + group, kWarpgroup);
    } else {
      speculative = {scale, offset};
    }
  }

  // What the scores of a speculative half begin with.
  __device__ auto start() const {
    if constexpr (kFoldedScale)
      return offsets().product(smem.ones());
    else
      return NoOffsets{};
  }

  // Until all products have ended, those of so many halves' scores among them.
  template <int kFirst, int kCount>
  __device__ void wait() {
    wgmma_wait<0>();
#pragma unroll
    for (int half = kFirst; half < kFirst + kCount; ++half) core.take_scores(scores[half]);
    pin(core.out);
  }

  // ---- Scores of Q times the scale, which is rounded: kFoldedScale

  template <int kHalves, typename Do>
  __device__ void each_score(Do with) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) with(scores[half][n][c]);
  }

  // Whether they are so far from zero that it would show.
  template <int kHalves>
  __device__ bool are_far() {
    if (!kFoldedScale || !scaled) return false;
    float farthest = 0;
    each_score<kHalves>([&](float score) { farthest = fmaxf(farthest, fabsf(score)); });
    return !this->all_agree(farthest <= kFar);
  }

  // Where they are, the tile goes on with the queries as they are, and these are to be computed again. No product may
  // still read the queries.
  template <int kHalves>
  __device__ bool leaves_scale() {
    if constexpr (kFoldedScale) {
      if (are_far<kHalves>()) {
        const volatile Place& at = ticket->place;
        query_block().load(p, {at.batch, at.head, at.kv_head, at.first_row}, this->first_of_rows(at.first_row));
        core.load_q_regs(this->query_rows());
        scaled = false;
        return true;
      }
    }
    return false;
  }

  // Queries that are not scaled leave it to their scores.
  template <int kHalves>
  __device__ void scale_scores() {
    if (kFoldedScale && !scaled) each_score<kHalves>([&](float& score) { score *= p.scale_log2; });
  }

  __device__ QueryRows<Config> query_block() const {
    return {smem.q[this->q.at()] + this->rows() * 64 * kPanelRowBytes, 1 + group};
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
    scale_scores<2>();
    this->softmax_masked(block_scores(), first_row, block--);
    core.rescale();
    pack_weights<Config>(block_scores(), this->weights);
  }

  // Of a tile's first block, where no row sees more of it.
  __device__ void exact_half(int first_row) {
    do multiply_block<false, 1>();
    while (leaves_scale<1>());
    release_block();
    scale_scores<1>();
    this->softmax_masked(scores[0], first_row, block--);
    pack_weights<Config>(scores[0], this->weights);
  }

  // A block with none before it whose values are not counted. If its keys had been passed, its first half is.
  __device__ void exact_block(int first_row) {
    const bool half_counted = k.passed != v.passed;
    k.passed = v.passed;
    do multiply_block<false, 2>();
    while (leaves_scale<2>());
    release_block();
    if (half_counted) each_score<1>([](float& score) { score = negative_infinity(); });
    weigh_block(first_row);
  }

  // False where it is to be computed again, by itself.
  __device__ bool exact_beside_values(int first_row) {
    multiply_block<true, 2>();
    if (are_far<2>()) {
      this->release_values();
      return false;
    }
    release_block();
    this->release_values();
    weigh_block(first_row);
    return true;
  }

  // Down to that block, or to one that is to be computed by itself: false.
  __device__ bool exact_down_to(int first_row, int last) {
    while (block >= last)
      if (!exact_beside_values(first_row)) return false;
    return true;
  }

  // ---- Speculative blocks, by halves

  // The softmax of half kMine beside the values of the other half and, where there are any, its next scores. False
  // where the stale maxima do not do, by one test. Step 0 ends with values of half 1, the last of their block.
  template <int kMine, bool kScores>
  __device__ bool half_step() {
    constexpr int kOther = 1 - kMine;
    if constexpr (kScores)
      core.begin_both(scores[kOther], this->queries(), keys_of(kOther), weights_of(kOther), values_of(kOther), start());
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
    core.begin_both(scores[0], this->queries(), keys_of(0), weights_of(0), values_of(0), start());
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
    if constexpr (kFoldedScale) scaled = query_block().scale(p.scale_log2);
    core.load_q_regs(this->query_rows());
    this->pass(blocks - 1 - block);
    bool half = this->half_is_seen(block, seen), halved = false;
    int last = this->first_masked(first_row);  // of the exact blocks
    for (int fallbacks = 0;;) {
      if (half)
        exact_half(first_row);
      else
        exact_block(first_row);
      half = false;
      const bool fine = exact_down_to(first_row, kFoldedScale && !scaled ? first : last);
      const int from = block;
      halved = fine && block >= first;
      if (halved) walk_halves(first);
      if (fine && block < first) break;
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

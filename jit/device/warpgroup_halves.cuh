// warpgroup_halves.cuh: a warpgroup's walk over the keys of its 64 query rows, half a block at a time: the softmax of
// one half runs beside the values and the next scores of the other, in the registers of one block. A column of ones
// beside the values makes the products sum the weights. Owns: that order of work, and which of two blocks' keys are
// held until their scores are accepted. Never: masks beside products; blocks under the mask are walked whole, before.
// Threads: the 128 threads of a warpgroup.
#pragma once

#include "warpgroup_consumer.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupHalves : WarpgroupConsumer<Config> {
  using Consumer = WarpgroupConsumer<Config>;
  using Smem = WarpgroupSmem<Config>;
  static constexpr int kKeys = Config::kTileN / 2;
  static constexpr bool kShift = shifts_scores<Config>();
  static_assert(!Smem::kKeysTransposed && Smem::kShare == 1, "halves are rows of a block");

  using Consumer::core;
  using Consumer::group;
  using Consumer::k;
  using Consumer::p;
  using Consumer::smem;
  using Consumer::v;

  float scores[2][kKeys / 8][4];
  const volatile Ticket* ticket = nullptr;  // of kShift: the tile's
  bool scaled = false;                      // of kShift: the queries are, else scores that are looked at, and all are
  static constexpr float kFar = 64;         // powers of two: weights are then off by 0.2 % as a rule
  UnseenWeights<Config> unseen;             // kept, since the loop is held by its instructions

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
    if constexpr (kShift) {
      const float none = __int_as_float(0x7fffffff);
      offsets().write(scaled ? offset[0] : none, scaled ? offset[1] : none);
      named_sync(1 + group, kWarpgroup);
    } else {
      unseen = {scale, offset};
    }
  }

  // What scores begin with that no look at their maxima comes before.
  __device__ auto start() const {
    if constexpr (kShift)
      return offsets().shift(smem.ones());
    else
      return NoShift{};
  }

  // A whole block's scores; beside them the values of the block before, where there is one.
  template <bool kValues, int kHalves>
  __device__ void begin_block() {
    k.wait_full(smem.k_ring);
    if constexpr (kValues) v.wait_full(smem.v_ring);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if constexpr (kValues)
        core.begin_both(scores[half], this->queries(), keys_of(half), weights_of(half), values_of(half));
      else
        core.begin_scores(scores[half], this->queries(), keys_of(half));
    }
    k.next();
    wait<0, kHalves>();
    if constexpr (kShift) {
      if (leave_scale<0, kHalves>())
        look<0, kHalves>(k.before());
      else
        scale_scores<0, kHalves>();
    }
    this->release_keys();
    if constexpr (kValues) this->release_values();
  }

  // ---- kShift

  // Queries times the scale are rounded, which scores far from zero would show: where halves that are looked at have
  // such, the tile goes on with the queries as they are. Whether it does so from here on: they are computed again then.
  template <int kFirst, int kCount>
  __device__ bool leave_scale() {
    if (!scaled) return false;
    float farthest = 0;
#pragma unroll
    for (int half = kFirst; half < kFirst + kCount; ++half)
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) farthest = fmaxf(farthest, fabsf(scores[half][n][c]));
    if (this->all_agree(farthest <= kFar)) return false;
    const volatile Place& at = ticket->place;
    query_block().load(p, {at.batch, at.head, at.kv_head, at.first_row}, this->first_of_rows(at.first_row));
    core.hold_queries(this->query_rows());
    scaled = false;
    return true;
  }

  // Queries that are not scaled leave it to their scores.
  template <int kFirst, int kCount>
  __device__ void scale_scores() {
    if (scaled) return;
#pragma unroll
    for (int half = kFirst; half < kFirst + kCount; ++half)
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[half][n][c] *= p.scale_log2;
  }

  // Scores of that buffer's keys, looked at.
  template <int kFirst, int kCount>
  __device__ void look(int buffer) {
    for (bool again = true; again;) {
#pragma unroll
      for (int half = kFirst; half < kFirst + kCount; ++half)
        core.begin_scores(scores[half], this->queries(), this->keys(buffer, half * kKeys));
      wait<kFirst, kCount>();
      again = false;
      if constexpr (kShift) again = leave_scale<kFirst, kCount>();
    }
    if constexpr (kShift) scale_scores<kFirst, kCount>();
  }

  __device__ QueryRows<Config> query_block() const {
    return {smem.q[this->q.at()] + this->rows() * 64 * kPanelRowBytes, 1 + group};
  }

  // ----

  // Until all products have ended, those of so many halves' scores among them.
  template <int kFirst, int kCount>
  __device__ void wait() {
    wgmma_wait<0>();
#pragma unroll
    for (int half = kFirst; half < kFirst + kCount; ++half) core.take_scores(scores[half]);
    pin(core.out);
  }

  // The weights of a block under the mask, whose halves have their maxima in common: what one of them raised the
  // other's weights would not know of.
  __device__ void softmax_block(int first_row, int block) {
    this->softmax_masked(block_scores(), first_row, block);
    core.rescale();
    pack_weights<Config>(block_scores(), this->weights);
  }

  // Of a block whose second half no row sees.
  __device__ void softmax_first_half(int first_row, int block) {
    this->softmax_masked(scores[0], first_row, block);
    pack_weights<Config>(scores[0], this->weights);
  }

  __device__ void first_block(int first_row, int block, int seen) {
    if (this->half_is_seen(block, seen)) {
      begin_block<false, 1>();
      softmax_first_half(first_row, block);
    } else {
      begin_block<false, 2>();
      softmax_block(first_row, block);
    }
  }

  // The softmax of half kMine of a block seen whole, beside the values of the other half and, where there are any, its
  // next scores. Where the maxima so far do not do, its scores are computed again; of half 1 the keys are the buffer
  // before's by then.
  template <int kMine, bool kScores>
  __device__ void half_step() {
    constexpr int kOther = 1 - kMine;
    if constexpr (kScores)
      core.begin_both(scores[kOther], this->queries(), keys_of(kOther), weights_of(kOther), values_of(kOther), start());
    else
      core.begin_values(weights_of(kOther), values_of(kOther));
    const bool fine = unseen.weigh(scores[kMine], weights_of(kMine));
    const bool all_fine = this->all_agree(fine);
    wait<kOther, kScores>();
    if (!all_fine) {
      const int buffer = kMine == 0 ? k.at() : k.before();
      look<kMine, 1>(buffer);
      core.softmax(scores[kMine], score_scale<Config>(p));
      take_maxima();
      core.rescale();
      pack_weights<Config>(scores[kMine], weights_of(kMine));
      if constexpr (kShift && kScores) {
        core.begin_scores(scores[kOther], this->queries(), keys_of(kOther), start());
        core.template wait_scores<0>(scores[kOther]);
      }
    }
  }

  // The softmax of a block's two halves, beside the next block's first scores.
  __device__ void block_step() {
    half_step<0, true>();
    this->release_values();
    k.next();
    k.wait_full(smem.k_ring);
    v.wait_full(smem.v_ring);
    half_step<1, true>();
    this->release_keys();
  }

  // From the first block that no mask touches. Before it, the weights of the block before are there, its values are not
  // begun; after it, the weights of half 1 of block 0 are.
  __device__ void walk_unmasked(int block) {
    take_maxima();
    k.wait_full(smem.k_ring);
    v.wait_full(smem.v_ring);
    core.begin_both(scores[0], this->queries(), keys_of(0), weights_of(0), values_of(0), start());
    wait<0, 1>();
    for (; block > 0; --block) block_step();
    half_step<0, true>();
    this->release_values();
    v.wait_full(smem.v_ring);
    k.next();
    half_step<1, false>();
    this->release_keys();
  }

  // A tile's out and state, not yet normalised, of the blocks before `blocks`, from the last to `first`.
  __device__ void walk(int first_row, int blocks, int first) {
    const int masked = this->first_masked(first_row), seen = this->seen_by_rows(first_row);
    int block = Config::kCausal ? (seen - 1) / Config::kTileN : blocks - 1;
    core.clear();
    this->q.wait_full(smem.q_ring);
    if (this->has_no_rows(first_row)) return this->walk_past(blocks - first);
    if constexpr (kShift) scaled = query_block().scale(p.scale_log2);
    core.hold_queries(this->query_rows());
    this->pass(blocks - 1 - block);
    first_block(first_row, block--, seen);
    for (; block >= (kShift && !scaled ? first : masked); --block) {
      begin_block<true, 2>();
      softmax_block(first_row, block);
    }
    block -= first;
    const bool halved = block >= 0;
    if (halved) walk_unmasked(block);
    this->release_queries();
    v.wait_full(smem.v_ring);
    if (!halved) core.begin_values(weights_of(0), values_of(0));
    core.begin_values(weights_of(1), values_of(1));
    core.template wait_values<0>();
    this->release_values();
  }
};

}  // namespace gqa

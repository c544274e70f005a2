// warpgroup_attention.cuh: the attention core of one warpgroup: 64 query rows against kTileN keys a step, by wgmma.
// Owns: the accumulators, and the pieces of a step: scores, softmax, weights, second product. The products run
// asynchronously; who calls decides what runs under what. Rabe & Staats 2021; Shah et al., "FlashAttention-3", 2024.
// Never: waits for memory; warpgroup_consumer.cuh does.
// Threads: the 128 threads of a warpgroup; a quad of lanes holds a row, as in warp_attention.cuh.
#pragma once

#include "mma.cuh"
#include "packed_exp.cuh"
#include "rows.cuh"
#include "softmax.cuh"
#include "warpgroup_hints.cuh"
#include "warpgroup_smem.cuh"

namespace gqa {

// Where a row's maximum grew by less than this, in powers of two, its old one still serves: the weights stay below
// 2^kSlack, far from float16's and float32's ends.
constexpr float kSlack = 8;

// Above this sum of a lane's exponentials one of them may be past what float16 holds.
constexpr float kMostUnseen = 32768;

// Summed as products, weights are 2^-kSlack of what they would be, so that those under old maxima stay below 1; from 2
// on both 16-bit types set their highest exponent bit.
constexpr u32 kFromTwoOn = 0x40004000;

template <typename Config>
struct WarpgroupAttention {
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr int kDepth = Config::kHeadDim / 16;  // products that make scores
  using Smem = WarpgroupSmem<Config>;
  using Packed = PackedExp<typename Config::Element>;
  static constexpr bool kSums = Smem::kSums;
  static constexpr int kAllOuts = kOuts + kSums;  // the rows' sums last, eight times
  static constexpr int kHeld = held_queries<Config>();
  static_assert(kHeld <= kDepth, "there are not as many columns to hold");

  float out[kAllOuts][4];
  RowState state;
  float factor[2];                        // what out is still to be multiplied by
  bool rescaling;                         // whether it is, the same in all lanes of a warp
  Fragment held[kHeld == 0 ? 1 : kHeld];  // the queries' first columns: what shared memory need not deliver

  // What exponents are taken relative to, from a row's shift.
  __device__ static float biased(float shift) {
    if constexpr (kSums) return shift + kSlack;
    return shift;
  }

  // As after no key at all.
  __device__ void clear() {
    state = RowState();
#pragma unroll
    for (int n = 0; n < kAllOuts; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) out[n][c] = 0;
  }

  // A tile's queries have come; `queries`: as for begin_scores().
  __device__ void hold_queries(u32 queries) {
    const int lane = lane_index(), warp = thread_index() % kWarpgroup / 32;
    const u32 row = queries + (warp * 16 + lane % 16) * kPanelRowBytes;
#pragma unroll
    for (int d = 0; d < kHeld; ++d) {
      const int piece = (d % 4 * 2 + lane / 16) ^ (lane % 8);  // the 128-byte swizzle, as in epilogue.cuh
      held[d] = ldmatrix(row + d / 4 * Smem::kQueryPanel + piece * 16);
    }
  }

  __device__ static u64 key_operand(u32 keys) { return operand(keys, Smem::kKeysTransposed ? Smem::kKeyPanel : 0); }

  // The d-th 16 columns of keys. Transposed, they are read as the second product reads the values: rows of the inner
  // dimension.
  __device__ static u64 key_columns(u64 k, int d) {
    return advance(k, Smem::kKeysTransposed ? d * 16 * kPanelRowBytes : d / 4 * Smem::kKeyPanel + d % 4 * 32);
  }

  // The d-th product that makes the scores.
  template <int kFragments>
  __device__ void multiply_scores(float (&scores)[kFragments][4], u64 q, u64 k, int d) const {
    using Product = ScoresOf<Config, kFragments * 8>;
    if constexpr (kHeld > 0)
      if (d < kHeld) return Product::multiply(scores, held[d].r, key_columns(k, d), d != 0);
    Product::multiply(scores, advance(q, d / 4 * Smem::kQueryPanel + d % 4 * 32), key_columns(k, d), d != 0);
  }

  // scores = q k^T, begun. Operands: this warpgroup's first query row, and the keys'.
  template <int kFragments>
  __device__ void begin_scores(float (&scores)[kFragments][4], u64 q, u64 k) {
    pin(scores);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) multiply_scores(scores, q, k, d);
    wgmma_commit();
  }

  // 16 keys further in the values; the ones are the same for all.
  __device__ static u64 value_rows(u64 values, int k) {
    const u32 bytes = k * 16 * kPanelRowBytes;
    return kSums ? advance_first_panel(values, bytes) : advance(values, bytes);
  }

  // out += weights v, begun; `values`: the operand.
  template <int kProducts>
  __device__ void begin_values(const u32 (&weights)[kProducts][4], u64 values) {
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kProducts; ++k) Config::Values::multiply(out, weights[k], value_rows(values, k), true);
    wgmma_commit();
  }

  // Both begun as one group, by turns: the assembler spreads them among the arithmetic that follows.
  template <int kFragments, int kProducts>
  __device__ void begin_both(float (&scores)[kFragments][4], u64 q, u64 k, const u32 (&weights)[kProducts][4],
                             u64 values) {
    pin(scores);
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < (kDepth > kProducts ? kDepth : kProducts); ++i) {
      if (i < kDepth) multiply_scores(scores, q, k, i);
      if (i < kProducts) Config::Values::multiply(out, weights[i], value_rows(values, i), true);
    }
    wgmma_commit();
  }

  // Scores whose products have ended, through the chain where there is one.
  template <int kFragments>
  __device__ static void take_scores(float (&scores)[kFragments][4]) {
    pin(scores);
    apply_chain<Config>(scores);
  }

  // Until at most kPending of the products begun are still running.
  template <int kPending, int kFragments>
  __device__ void wait_scores(float (&scores)[kFragments][4]) {
    wgmma_wait<kPending>();
    take_scores(scores);
  }
  template <int kPending>
  __device__ void wait_values() {
    wgmma_wait<kPending>();
    pin(out);
  }

  // Masks what this warp's rows, from packed row `row` on, may not see of the keys from first_key on. Only the
  // fragments that the causal edge crosses are looked at one by one.
  template <int kFragments>
  __device__ void mask(float (&scores)[kFragments][4], const AttentionParams& p, int row, int first_key) {
    const int lane_row = row + lane_index() / 4;
    const int least = key_limit<Config>(p, row) - first_key;
    const int limit[2] = {key_limit<Config>(p, lane_row) - first_key, key_limit<Config>(p, lane_row + 8) - first_key};
#pragma unroll
    for (int n = 0; n < kFragments; n += 2) {
      if (n * 8 + 16 <= least) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) mask_score(scores[n + i / 4][i % 4], n * 8 + i / 4 * 8 + i % 2, limit[i / 2 % 2]);
    }
  }

  // The softmax of a block under its own maxima. Where no maximum of the warp's grew by kSlack, the old ones serve and
  // out needs no rescaling.
  template <int kFragments>
  __device__ void softmax(float (&scores)[kFragments][4], float scale_log2) {
    const float highest[2] = {quad_max(state.highest(scores, 0)), quad_max(state.highest(scores, 1))};
    const float limit = kSlack / scale_log2;
    rescaling = __any_sync(0xffffffffu, highest[0] > state.maximum[0] + limit || highest[1] > state.maximum[1] + limit);
    factor[0] = factor[1] = 1;
    if (rescaling) {
#pragma unroll
      for (int h = 0; h < 2; ++h) factor[h] = state.raise(highest[h], h, scale_log2);
    }
    const float shift[2] = {biased(state.shift(0, scale_log2)), biased(state.shift(1, scale_log2))};
    float sum[2];
    exponentiate(scores, shift, scale_log2, sum);
#pragma unroll
    for (int h = 0; h < 2; ++h) state.sum[h] = state.sum[h] * factor[h] + sum[h];
  }

  // The same under the maxima of the blocks before, without a look at the scores. In a lane where that does not do (a
  // weight near float16's end, or a row that has seen no key: its shift is -inf) the answer is false: the scores are
  // lost and must be computed again, by the whole warpgroup.
  template <int kFragments>
  __device__ bool exponentiate_unseen(float (&scores)[kFragments][4], float scale_log2, float (&sum)[2]) {
    const float shift[2] = {biased(state.maximum[0] * scale_log2), biased(state.maximum[1] * scale_log2)};
    exponentiate(scores, shift, scale_log2, sum);
    return sum[0] <= kMostUnseen && sum[1] <= kMostUnseen;
  }

  // The exponentials of scores that are weighed unseen, under the maxima that there are.
  struct Unseen {
    float scale_log2, offset[2];  // +inf in a row that has seen no key: no weight of its passes
    Packed packed;
  };
  __device__ Unseen unseen(float scale_log2) const {
    const float offset[2] = {-fmaf(state.maximum[0], scale_log2, kSlack), -fmaf(state.maximum[1], scale_log2, kSlack)};
    return {scale_log2, {offset[0], offset[1]}, Packed(scale_log2, offset)};
  }

  // To weights, for products that sum them. The answer is false where one is too large, or no exponent of a
  // polynomial's (packed_exp.cuh).
  template <int kFragments, int kProducts>
  __device__ static bool weigh_unseen(const float (&scores)[kFragments][4], u32 (&weights)[kProducts][4],
                                      const Unseen& by) {
    Packed packed = kKeepsPacked<Config> ? by.packed : Packed(by.scale_log2, by.offset);
    u32 bits = 0;
#pragma unroll
    for (int k = 0; k < kProducts; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[2 * k + i / 2][i % 2 * 2];
        if (is_packed<4 * kProducts>(4 * k + i)) {
          weights[k][i] = packed(s[0], s[1], i % 2);
          if constexpr (!Packed::kSeesTwo) bits |= weights[k][i];
        } else {
          weights[k][i] = Config::Element::pack(exp2_approx(fmaf(s[0], by.scale_log2, by.offset[i % 2])),
                                                exp2_approx(fmaf(s[1], by.scale_log2, by.offset[i % 2])));
          bits |= weights[k][i];
        }
      }
    return (bits & kFromTwoOn) == 0 && (kPackedExp == 0 || packed.all_fit());
  }

  // Which of so many pairs of weights are polynomials: the first, so that their arithmetic runs under the exponentials
  // of the others.
  static constexpr int kPackedExp = packed_exponentials<Config>();
  template <int kPairs>
  __device__ static constexpr bool is_packed(int pair) {
    if constexpr (kPackedExp == 0) return false;
    return pair * kPackedExp < kPairs;
  }

  __device__ void accept_unseen(const float (&sum)[2]) {
    state.sum[0] += sum[0];
    state.sum[1] += sum[1];
    rescaling = false;
  }

  // Scores to exponentials relative to the shifts; their sums, each in two chains, since one would wait for itself.
  // With kSums the products sum.
  template <int kFragments>
  __device__ void exponentiate(float (&scores)[kFragments][4], const float (&shift)[2], float scale_log2,
                               float (&sum)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float part[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[n][2 * h + c];
          score = exp2_approx(fmaf(score, scale_log2, -shift[h]));
          if constexpr (!kSums) part[c] += score;
        }
      }
      sum[h] = part[0] + part[1];
    }
    if constexpr (!kSums) finish_before_waiting(sum[0] + sum[1]);
  }

  // The accumulators' layout is the A operand's. Keys without scores weigh nothing.
  template <int kFragments, int kProducts>
  __device__ static void pack_weights(const float (&scores)[kFragments][4], u32 (&weights)[kProducts][4]) {
#pragma unroll
    for (int k = 0; k < kFragments / 2; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[2 * k + i / 2][i % 2 * 2];
        weights[k][i] = Config::Element::pack(s[0], s[1]);
      }
#pragma unroll
    for (int k = kFragments / 2; k < kProducts; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[k][i] = 0;
  }

  __device__ void rescale() {
    if (!rescaling) return;
#pragma unroll
    for (int n = 0; n < kAllOuts; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) out[n][c] *= factor[c / 2];
  }

  // The state then belongs to whole rows.
  __device__ void finish() {
    if constexpr (kSums) {
      state.sum[0] = out[kOuts][0];
      state.sum[1] = out[kOuts][2];
    } else {
      state.finish();
    }
  }
};

}  // namespace gqa

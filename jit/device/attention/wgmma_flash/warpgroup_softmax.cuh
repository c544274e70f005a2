// warpgroup_softmax.cuh: the softmax of a warpgroup's 64 query rows, between their two products.
// Owns: out and the rows' state, when stale maxima still serve, and what out is rescaled by.
// Never: multiplies (warpgroup_attention.cuh does).
// Threads: the 128 threads of a warpgroup; a quad of lanes holds a row, as in warp_attention.cuh.
#pragma once

#include "attention/common/rows.cuh"
#include "attention/common/softmax.cuh"
#include "attention/wgmma_flash/warpgroup_weights.cuh"
#include "ptx/wgmma.cuh"

namespace gqa {

// Above this sum of a lane's exponentials one of them may be near float32's end.
constexpr float kMostSpeculativeSum = 0x1p100f;

template <typename Config>
struct WarpgroupSoftmax {
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr bool kOnesColumn = ones_column<Config>();
  static constexpr int kAllOuts = kOuts + kOnesColumn;  // the rows' sums last, eight times

  float out[kAllOuts][4];
  RowState state;
  float factor[2];  // what out is still to be multiplied by
  bool rescaling;   // whether it is, the same in all lanes of a warp

  // What exponents are taken relative to, from a row's shift.
  __device__ static float biased(float shift) { return shift + kBelow<Config>; }

  // As after no key at all.
  __device__ void clear() {
    state = RowState();
#pragma unroll
    for (int n = 0; n < kAllOuts; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) out[n][c] = 0;
  }

  // Masks what this warp's rows, from packed row `row` on, may not see of the keys from first_key on. Only the
  // fragments that some row's limit crosses are masked one by one.
  template <int kFragments>
  __device__ void mask(float (&scores)[kFragments][4], const Walk<Config>& walk, int row, int first_key) {
    const int lane_row = row + lane_index() / 4;
    const int least = walk.limit(row) - first_key;
    const int limit[2] = {walk.limit(lane_row) - first_key, walk.limit(lane_row + 8) - first_key};
#pragma unroll
    for (int n = 0; n < kFragments; n += 2) {
      if (n * 8 + 16 <= least) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) mask_score(scores[n + i / 4][i % 4], n * 8 + i / 4 * 8 + i % 2, limit[i / 2 % 2]);
    }
  }

  // The softmax of a block under its own maxima. Where none of the warp's grew, out needs no rescaling.
  template <int kFragments>
  __device__ void softmax(float (&scores)[kFragments][4], float scale_log2) {
    const float highest[2] = {quad_max(state.highest(scores, 0)), quad_max(state.highest(scores, 1))};
    float before[2] = {state.maximum[0], state.maximum[1]};
    rescaling = __any_sync(0xffffffffu, highest[0] > before[0] || highest[1] > before[1]);
    factor[0] = factor[1] = 1;
    if (rescaling) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        state.maximum[h] = fmaxf(before[h], highest[h]);
        factor[h] = exp2_approx(scaled(before[h], scale_log2) - state.shift(h, scale_log2));
      }
    }
    float shift[2] = {state.shift(0, scale_log2), state.shift(1, scale_log2)};
    if (state.any_far(shift)) {
      state.subtract_far(scores, state.maximum, shift, before);
#pragma unroll
      for (int h = 0; h < 2; ++h) factor[h] = exp2_approx(scaled(before[h], scale_log2) - shift[h]);
    }
    shift[0] = biased(shift[0]);
    shift[1] = biased(shift[1]);
    float sum[2];
    exponentiate(scores, shift, scale_log2, sum);
#pragma unroll
    for (int h = 0; h < 2; ++h) state.sum[h] = state.sum[h] * factor[h] + sum[h];
  }

  // The speculative softmax: the same under the stale maxima of the blocks before. False in a lane where one of them
  // does not serve, be it that it is far from zero (that of a row that has seen no key is -inf).
  template <int kFragments>
  __device__ bool exponentiate_speculatively(float (&scores)[kFragments][4], float scale_log2, float (&sum)[2]) {
    const float shift[2] = {biased(state.maximum[0] * scale_log2), biased(state.maximum[1] * scale_log2)};
    exponentiate(scores, shift, scale_log2, sum);
    u32 bits = 0;
#pragma unroll
    for (int n = 0; n < kFragments; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) bits |= __float_as_uint(scores[n][c]);
    return (bits & kFloatFromTwoOn) == 0 && !one_is_far(shift);
  }

  // What is added to row half h's scores, times the scale, to make exponents of them: +inf, under which no weight
  // passes, where its maximum is far from zero, as that of a row that has seen no key is.
  __device__ float offset(int h, float scale_log2) const {
    const float shift = scaled(state.maximum[h], scale_log2);
    return is_far(shift) ? -negative_infinity() : -biased(shift);
  }

  __device__ void accept_speculation(const float (&sum)[2]) {
    state.sum[0] += sum[0];
    state.sum[1] += sum[1];
    rescaling = false;
  }

  // Where it did not do: whether the exponentials do under maxima that are renewed. Else they are lost, and the whole
  // warpgroup must fall back to computing the scores again.
  __device__ bool can_renew(const float (&sum)[2], float scale_log2) const {
    bool can = true;
#pragma unroll
    for (int h = 0; h < 2; ++h)
      can = can && sum[h] <= kMostSpeculativeSum && !is_far(scaled(state.maximum[h], scale_log2));
    return can;
  }

  // Raises the maxima to those of the keys whose exponentials these are.
  template <int kFragments>
  __device__ void renew(float (&scores)[kFragments][4], const float (&sum)[2], float scale_log2) {
    rescaling = true;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // The distance below a maximum, as it was rounded.
      const float shift = scaled(state.maximum[h], scale_log2), unbias = exp2_approx(biased(shift) - shift);
      const float growth = fmaxf(1, quad_max(RowState::highest(scores, h)) * unbias);
      factor[h] = reciprocal_approx(growth);
      state.maximum[h] += __log2f(growth) / scale_log2;
      state.sum[h] = (state.sum[h] + sum[h]) * factor[h];
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        scores[n][2 * h] *= factor[h];
        scores[n][2 * h + 1] *= factor[h];
      }
    }
  }

  // Scores to exponentials relative to the shifts; their sums, each in two chains, since one would wait for itself.
  // With kOnesColumn the products sum.
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
          if constexpr (!kOnesColumn) part[c] += score;
        }
      }
      sum[h] = part[0] + part[1];
    }
    if constexpr (!kOnesColumn) finish_before_waiting(sum[0] + sum[1]);
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
    if constexpr (kOnesColumn) {
      state.sum[0] = out[kOuts][0];
      state.sum[1] = out[kOuts][2];
    } else {
      state.finish();
    }
  }
};

}  // namespace gqa

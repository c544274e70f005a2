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

// Above this sum of a lane's exponentials one of them may be past what float16 holds.
constexpr float kMostSpeculativeSum = 32768;

template <typename Config>
struct WarpgroupSoftmax {
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr bool kOnesColumn = ones_column<Config>();
  static constexpr float kBelow = Room<typename Config::Kv>::kBelow;
  static constexpr int kAllOuts = kOuts + kOnesColumn;  // the rows' sums last, eight times

  float out[kAllOuts][4];
  RowState state;
  float factor[2];  // what out is still to be multiplied by
  bool rescaling;   // whether it is, the same in all lanes of a warp

  // What exponents are taken relative to, from a row's shift.
  __device__ static float biased(float shift) { return kOnesColumn ? shift + kBelow : shift; }

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
  __device__ void mask(float (&scores)[kFragments][4], const AttentionParams& p, int row, int first_key) {
    const int lane_row = row + lane_index() / 4;
    const Walk<Config> walk(p);
    const int least = walk.limit(row) - first_key;
    const int limit[2] = {walk.limit(lane_row) - first_key, walk.limit(lane_row + 8) - first_key};
#pragma unroll
    for (int n = 0; n < kFragments; n += 2) {
      if (n * 8 + 16 <= least) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) mask_score(scores[n + i / 4][i % 4], n * 8 + i / 4 * 8 + i % 2, limit[i / 2 % 2]);
    }
  }

  // The softmax of a block under its own maxima. Where no maximum of the warp's grew by much, the old ones serve and
  // out needs no rescaling. With kOnesColumn most blocks are speculative, and maxima that lag would take their room.
  template <int kFragments>
  __device__ void softmax(float (&scores)[kFragments][4], float scale_log2) {
    const float highest[2] = {quad_max(state.highest(scores, 0)), quad_max(state.highest(scores, 1))};
    const float limit = (kOnesColumn ? 1 : kSlack) / scale_log2;
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

  // The speculative softmax: the same under the stale maxima of the blocks before. In a lane where that does not do (a
  // weight near float16's end, or a row that has seen no key: its shift is -inf) the answer is false: the scores are
  // lost, and the whole warpgroup must fall back to computing them again.
  template <int kFragments>
  __device__ bool exponentiate_speculatively(float (&scores)[kFragments][4], float scale_log2, float (&sum)[2]) {
    const float shift[2] = {biased(state.maximum[0] * scale_log2), biased(state.maximum[1] * scale_log2)};
    exponentiate(scores, shift, scale_log2, sum);
    return sum[0] <= kMostSpeculativeSum && sum[1] <= kMostSpeculativeSum;
  }

  // What is added to row half h's scores, times the scale, to make exponents of them.
  __device__ float offset(int h, float scale_log2) const { return -fmaf(state.maximum[h], scale_log2, kBelow); }

  __device__ void accept_speculation(const float (&sum)[2]) {
    state.sum[0] += sum[0];
    state.sum[1] += sum[1];
    rescaling = false;
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

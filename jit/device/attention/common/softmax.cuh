// softmax.cuh: the running softmax of a warp's rows.
// Owns: RowState (running maximum and sum of the two rows a lane shares in each 16-row fragment), the online update and
// its final reduction. Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018, on exp2.
// Never: masks; masked scores arrive as -inf.
// Threads: the four lanes of a quad hold one row; maxima are shared by shuffles, sums stay a lane's own until finish().
#pragma once

#include "ptx/element.cuh"

namespace gqa {

// Over the four lanes that share a row.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A maximum in powers of two, rounded: as one FMA with a subtraction, maxima that are equal would differ by the
// rounding, and what is rescaled in each of a thousand steps would drift.
__device__ inline float scaled(float maximum, float scale_log2) { return __fmul_rn(maximum, scale_log2); }

// Rows g and g + 8 of one 16-row fragment.
struct RowState {
  float maximum[2];  // of raw scores; -inf while nothing was seen
  float sum[2];      // of this lane's exponentials under the maximum

  __device__ RowState() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      maximum[h] = negative_infinity();
      sum[h] = 0;
    }
  }

  // The highest of what this lane holds of row half h; two chains, since one would wait for itself.
  template <int kScoreFragments>
  __device__ static float highest(const float (&scores)[kScoreFragments][4], int h) {
    float even = scores[0][2 * h], odd = scores[0][2 * h + 1];
#pragma unroll
    for (int n = 1; n < kScoreFragments; ++n) {
      even = fmaxf(even, scores[n][2 * h]);
      odd = fmaxf(odd, scores[n][2 * h + 1]);
    }
    return fmaxf(even, odd);
  }

  // What exponents are taken relative to. A row that has seen no key yet keeps exponent 0: exp2(-inf - 0) is 0, never
  // NaN.
  __device__ float shift(int h, float scale_log2) const {
    return maximum[h] == negative_infinity() ? 0.f : scaled(maximum[h], scale_log2);
  }

  // Raises row half h's maximum to at least `to`; what was accumulated under the old one is to be multiplied by the
  // result.
  __device__ float raise(float to, int h, float scale_log2) {
    const float before = maximum[h];
    maximum[h] = fmaxf(before, to);
    return exp2_approx(scaled(before, scale_log2) - shift(h, scale_log2));
  }

  // Turns scores into exponentials under the new running maximum and rescales what was accumulated under the old one.
  template <int kScoreFragments, int kOutFragments>
  __device__ void update(float (&scores)[kScoreFragments][4], float (&out)[kOutFragments][4], float scale_log2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float highest = maximum[h];
#pragma unroll
      for (int n = 0; n < kScoreFragments; ++n) highest = fmaxf(highest, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
      highest = quad_max(highest);
      // A row that has seen no key yet keeps exponent 0: exp2(-inf - 0) is 0, never NaN.
      const float shift = highest == negative_infinity() ? 0.f : scaled(highest, scale_log2);
      const float rescale = exp2_approx(scaled(maximum[h], scale_log2) - shift);
      maximum[h] = highest;
      sum[h] *= rescale;
#pragma unroll
      for (int n = 0; n < kScoreFragments; ++n) {
#pragma unroll
        for (int c = 2 * h; c < 2 * h + 2; ++c) {
          scores[n][c] = exp2_approx(fmaf(scores[n][c], scale_log2, -shift));
          sum[h] += scores[n][c];
        }
      }
#pragma unroll
      for (int n = 0; n < kOutFragments; ++n) {
        out[n][2 * h] *= rescale;
        out[n][2 * h + 1] *= rescale;
      }
    }
  }

  // Reduces the sums over the quad; the state then belongs to whole rows.
  __device__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = quad_sum(sum[h]);
  }
};

// 1/sum, 0 for a row that saw no key; kApprox: to 2^-23. Other sums are no subnormals, which that would take for 0:
// the largest weight is one at least.
template <bool kApprox = false>
__device__ inline float inverse_or_zero(float sum) {
  return sum > 0 ? (kApprox ? reciprocal_approx(sum) : 1.f / sum) : 0.f;
}

// Natural log of the sum of exponentials of scaled scores; -inf for a row that saw no key, NaN where a score was.
__device__ inline float log_sum_exp(float maximum, float sum, float scale_log2) {
  return sum == 0 ? negative_infinity() : (maximum * scale_log2 + __log2f(sum)) * kLn2;
}

}  // namespace gqa

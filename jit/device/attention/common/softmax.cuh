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

// Weights are relative to a scaled maximum as it was rounded: all are off by one factor, nearer to zero than this by
// 2^(2^-9) at most, from 2^31 on by more than float32 has. Scores whose maximum is as far from zero are first
// subtracted from it, then scaled. Masks that fill with a finite number make such rows.
constexpr float kFarFromZero = 0x1p16f;
__device__ inline bool is_far(float scaled_maximum) { return fabsf(scaled_maximum) >= kFarFromZero; }
__device__ inline bool one_is_far(const float (&shifts)[2]) {
  return is_far(fmaxf(fabsf(shifts[0]), fabsf(shifts[1])));
}

// What exponents are taken relative to. A row that has seen no key yet keeps exponent 0: exp2(-inf - 0) is 0, never
// NaN.
__device__ inline float shift_of(float maximum, float scale_log2) {
  return maximum == negative_infinity() ? 0.f : scaled(maximum, scale_log2);
}

// What is multiplied by the result was accumulated under the maximum `from`, and is then under `to`, which is no lower.
__device__ inline float rescale_factor(float from, float to, float scale_log2) {
  const float shift = shift_of(to, scale_log2);
  return exp2_approx(is_far(shift) ? (from - to) * scale_log2 : scaled(from, scale_log2) - shift);
}

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

  __device__ float shift(int h, float scale_log2) const { return shift_of(maximum[h], scale_log2); }

  // Raises row half h's maximum to at least `to`; what was accumulated under the old one is to be multiplied by the
  // result.
  __device__ float raise(float to, int h, float scale_log2) {
    const float before = maximum[h];
    maximum[h] = fmaxf(before, to);
    return rescale_factor(before, maximum[h], scale_log2);
  }

  // Where a row's maximum is far from zero, its scores become their distances from it, whose shift is 0, and so does
  // the maximum before.
  template <int kScoreFragments>
  __device__ static void subtract_far(float (&scores)[kScoreFragments][4], const float (&maximum)[2], float (&shift)[2],
                                      float (&before)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (!is_far(shift[h])) continue;
      shift[h] = 0;
      before[h] -= maximum[h];
#pragma unroll
      for (int n = 0; n < kScoreFragments; ++n) {
        scores[n][2 * h] -= maximum[h];
        scores[n][2 * h + 1] -= maximum[h];
      }
    }
  }

  // Whether a row of the warp's is far from zero. Rare: one well-predicted branch is all that others pay.
  __device__ static bool any_far(const float (&shift)[2]) {
    return __builtin_expect(__any_sync(0xffffffffu, one_is_far(shift)), 0);
  }

  // Turns scores into exponentials under the new running maximum and rescales what was accumulated under the old one.
  template <int kScoreFragments, int kOutFragments>
  __device__ void update(float (&scores)[kScoreFragments][4], float (&out)[kOutFragments][4], float scale_log2) {
    float before[2] = {maximum[0], maximum[1]}, highest[2], shift[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      highest[h] = maximum[h];
#pragma unroll
      for (int n = 0; n < kScoreFragments; ++n)
        highest[h] = fmaxf(highest[h], fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
      highest[h] = quad_max(highest[h]);
      shift[h] = shift_of(highest[h], scale_log2);
    }
    if (any_far(shift)) subtract_far(scores, highest, shift, before);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float rescale = exp2_approx(scaled(before[h], scale_log2) - shift[h]);
      maximum[h] = highest[h];
      sum[h] *= rescale;
#pragma unroll
      for (int n = 0; n < kScoreFragments; ++n) {
#pragma unroll
        for (int c = 2 * h; c < 2 * h + 2; ++c) {
          scores[n][c] = exp2_approx(fmaf(scores[n][c], scale_log2, -shift[h]));
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
// Through log2 a maximum near float32's end would overflow.
__device__ inline float log_sum_exp(float maximum, float sum, float scale_log2) {
  return sum == 0 ? negative_infinity() : fmaf(maximum, scale_log2 * kLn2, __log2f(sum) * kLn2);
}

}  // namespace gqa

// tile_math.cuh: the operators of a µGraph on one element, and how a dimension is folded.
// Owns: what differs from a plain C++ expression: functions, the conventions for rows without a key, NaN.
// Never: knows where an element lies.
// Threads: per-lane values.
#pragma once

#include "ptx/element.cuh"

namespace gqa {

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

// NaN stays, as in the reference.
__device__ inline float larger(float a, float b) { return a < b || b != b ? b : a; }

// A score minus a maximum. A masked score stays masked where its whole row is; one that overflowed to +inf is the
// maximum, so the rest of its row gets the weight 0.
__device__ inline float sub_max(float x, float maximum) {
  if (x == negative_infinity()) return x;
  return x == maximum ? 0.f : x - maximum;
}
// A row that sees no key gives 0.
__device__ inline float normalize(float x, float total) { return total == 0.f ? 0.f : x / total; }

__device__ inline float square(float x) { return x * x; }
__device__ inline float relu(float x) { return x < 0.f ? 0.f : x; }
// The exponential is of nothing above 0: the quick division gives 0 where a divisor is past 2^126.
__device__ inline float silu(float x) {
  const float e = expf(-fabsf(x));
  return __fdividef(x < 0.f ? x * e : x, 1.f + e);
}
__device__ inline float gelu(float x) { return 0.5f * x * erfcf(x * -0.70710678118654752f); }
__device__ inline float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
__device__ inline float where(bool seen, float x) { return seen ? x : negative_infinity(); }

// exp(before - now) of a running maximum: what was summed under the one, brought under the other.
__device__ inline float change_of(float before, float now) { return expf(sub_max(before, now)); }

struct Sum {
  static __device__ float neutral() { return 0.f; }
  static __device__ float join(float a, float b) { return a + b; }
};

struct Largest {
  static __device__ float neutral() { return negative_infinity(); }
  static __device__ float join(float a, float b) { return larger(a, b); }
};

// terms(first), terms(first + step), ... below end.
template <typename Fold, typename Term>
__device__ inline float fold(int first, int end, int step, Term term) {
  float folded = Fold::neutral();
  for (int j = first; j < end; j += step) folded = Fold::join(folded, term(j));
  return folded;
}

// A product that the tensor cores do not take.
template <int kInner, typename Left, typename Right>
__device__ inline float dot(Left left, Right right) {
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < kInner; ++k) sum = fmaf(left(k), right(k), sum);
  return sum;
}

}  // namespace gqa

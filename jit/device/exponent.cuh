// exponent.cuh: 2^x on the FMA units, for the share of exponentials that the special-function unit has no time for.
// Owns: exp2_polynomial: Cody & Waite's reduction to [-1/2, 1/2] and a minimax polynomial of degree 3.
// Never: meets -inf: masked scores go to exp2_approx.
// Threads: values.
#pragma once

#include "element.cuh"

namespace gqa {

// Relative error under 7.6e-5: a fiftieth of bfloat16's rounding, a sixth of float16's. x at most 126, below -126 taken
// as -126.
__device__ inline float exp2_polynomial(float x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits
  x = fmaxf(x, -126.f);
  const float whole = x + kRound;
  const float rest = x - (whole - kRound);
  float y = fmaf(rest, 0.05517167f, 0.24261112f);
  y = fmaf(rest, y, 0.69326099f);
  y = fmaf(rest, y, 0.99992807f);
  return __int_as_float(__float_as_int(y) + (__float_as_int(whole) << 23));
}

}  // namespace gqa

// elementwise.cuh: operators on one float, as a graph has them.
// Owns: functions whose errors stay well below what a 16-bit result can show, from ex2 and rcp; jit/score_chain.cc
// calls them by name. Never: knows where its argument comes from. Threads: values.
#pragma once

#include "element.cuh"

namespace gqa {

constexpr float kLog2E = 1.4426950408889634f;

// PTX ISA 9.7.3.17, rcp: 1/x, relative error under 2^-23; 0 for infinity.
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float exp_of(float x) { return exp2_approx(x * kLog2E); }

// 1 - 2 / (e^2|x| + 1) with x's sign; near 0, where that cancels, the series up to x^7. Relative error under 10^-6.
__device__ inline float tanh_of(float x) {
  const float magnitude = fabsf(x), square = x * x;
  const float far = 1.f - 2.f * reciprocal_approx(exp2_approx(2.f * kLog2E * magnitude) + 1.f);
  const float series = fmaf(fmaf(fmaf(-17.f / 315.f, square, 2.f / 15.f), square, -1.f / 3.f), square, 1.f);
  return magnitude < 0.25f ? x * series : copysignf(far, x);
}

__device__ inline float silu_of(float x) { return x * reciprocal_approx(1.f + exp_of(-x)); }
__device__ inline float gelu_of(float x) { return 0.5f * x * erfcf(x * -0.70710678f); }
__device__ inline float relu_of(float x) { return x < 0.f ? 0.f : x; }
__device__ inline float square_of(float x) { return x * x; }
__device__ inline float clamp_of(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
__device__ inline float infinity() { return __int_as_float(0x7f800000); }

}  // namespace gqa

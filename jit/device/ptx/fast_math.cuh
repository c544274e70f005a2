// fast_math.cuh: functions of one float for a main loop that has few cycles to spare: from ex2 and rcp.
// Owns: functions whose errors stay well below what a 16-bit result can show; jit/score_chain.cc calls them by name,
// and those of tile_math.cuh where nothing faster is here.
// Never: knows where its argument comes from.
// Threads: values.
#pragma once

#include "block/tile_math.cuh"

namespace gqa {

constexpr float kLog2E = 1.4426950408889634f;

__device__ inline float fast_exp(float x) { return exp2_approx(x * kLog2E); }

// 1 - 2 / (e^2|x| + 1) with x's sign; near 0, where that cancels, the series up to x^7. Relative error under 10^-6.
__device__ inline float fast_tanh(float x) {
  const float magnitude = fabsf(x), square = x * x;
  const float far = 1.f - 2.f * reciprocal_approx(exp2_approx(2.f * kLog2E * magnitude) + 1.f);
  const float series = fmaf(fmaf(fmaf(-17.f / 315.f, square, 2.f / 15.f), square, -1.f / 3.f), square, 1.f);
  return magnitude < 0.25f ? x * series : copysignf(far, x);
}

__device__ inline float fast_silu(float x) { return x * reciprocal_approx(1.f + fast_exp(-x)); }

}  // namespace gqa

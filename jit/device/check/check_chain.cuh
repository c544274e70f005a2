// check_chain.cuh: the reference's steps on a score.
// Owns: each step by CUDA's own functions, which are good to a few units in the last place.
// Never: shares code with the kernels it judges (jit/score_chain.cc writes theirs).
// Threads: values.
#pragma once

#include "check/check_chain.h"

namespace gqa {

__device__ inline float checked_step(CheckStep step, float x, float number, float high) {
  switch (step) {
    case CheckStep::kAdd:
      return x + number;
    case CheckStep::kSub:
      return x - number;
    case CheckStep::kMul:
      return x * number;
    case CheckStep::kDiv:
      return x / number;
    case CheckStep::kExp:
      return expf(x);
    case CheckStep::kExp2:
      return exp2f(x);
    case CheckStep::kSqrt:
      return sqrtf(x);
    case CheckStep::kRsqrt:
      return 1.f / sqrtf(x);
    case CheckStep::kSquare:
      return x * x;
    case CheckStep::kReciprocal:
      return 1.f / x;
    case CheckStep::kRelu:
      return x > 0.f ? x : 0.f;
    case CheckStep::kSilu:
      return x / (1.f + expf(-x));
    case CheckStep::kGelu:
      return 0.5f * x * erfcf(x * -0.70710678f);
    case CheckStep::kTanh:
      return tanhf(x);
    case CheckStep::kClamp:
      return x < number ? number : x > high ? high : x;
  }
  return x;
}

__device__ inline float checked_chain(const CheckChain& chain, float score) {
  for (int i = 0; i < chain.count; ++i) score = checked_step(chain.steps[i], score, chain.numbers[i], chain.highs[i]);
  return score;
}

}  // namespace gqa

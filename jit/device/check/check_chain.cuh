// check_chain.cuh: the reference's steps on a score.
// Owns: each step by CUDA's own functions, which are good to a few units in the last place; what its operand is.
// Never: shares code with the kernels it judges (jit/score_chain.cc writes theirs).
// Threads: values.
#pragma once

#include "check/check_chain.h"
#include "ptx/element.cuh"

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

// A score's place, as arrays have it.
struct CheckedScore {
  int batch, head, position, key;
  __device__ long long row(const TensorStrides& s) const { return batch * s.batch + position * s.row + head * s.head; }
};

__device__ inline float checked_operand(const CheckChain& chain, int i, const CheckedScore& at, bool bf16) {
  switch (chain.operands[i]) {
    case CheckOperand::kHead:
      return chain.heads[at.head];
    case CheckOperand::kRow:
      return chain.rows[at.row(chain.row_strides)];
    case CheckOperand::kScore: {
      const u16 bits = static_cast<const u16*>(chain.scores)[at.row(chain.score_strides) + at.key];
      return bf16 ? BF16::to_float(bits) : F16::to_float(bits);
    }
    case CheckOperand::kScore32:
      return static_cast<const float*>(chain.scores)[at.row(chain.score_strides) + at.key];
    default:
      return chain.numbers[i];
  }
}

__device__ inline float checked_chain(const CheckChain& chain, const CheckedScore& at, bool bf16, float score) {
  for (int i = 0; i < chain.count; ++i)
    score = checked_step(chain.steps[i], score, checked_operand(chain, i, at, bf16), chain.highs[i]);
  return score;
}

}  // namespace gqa

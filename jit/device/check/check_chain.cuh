// check_chain.cuh: the reference's steps on a score.
// Owns: each step by CUDA's own functions, which are good to a few units in the last place; what its operand is.
// Never: shares code with the kernels it judges (jit/score_chain.cc writes theirs).
// Threads: values.
#pragma once

#include "check/check_chain.h"
#include "check/checked_element.cuh"

namespace gqa {

template <typename Real>
__device__ inline Real checked_step(CheckStep step, Real x, Real number, Real high) {
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
      return exp(x);
    case CheckStep::kExp2:
      return exp2(x);
    case CheckStep::kSqrt:
      return sqrt(x);
    case CheckStep::kRsqrt:
      return 1 / sqrt(x);
    case CheckStep::kSquare:
      return x * x;
    case CheckStep::kReciprocal:
      return 1 / x;
    case CheckStep::kRelu:
      return x > 0 ? x : Real{0};
    case CheckStep::kSilu:
      return x / (1 + exp(-x));
    case CheckStep::kGelu:
      return x / 2 * erfc(x * static_cast<Real>(-0.70710678118654752));
    case CheckStep::kTanh:
      return tanh(x);
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

__device__ inline float checked_operand(const CheckChain& chain, int i, const CheckedScore& at, ElementType type) {
  switch (chain.operands[i]) {
    case CheckOperand::kHead:
      return chain.heads[at.head];
    case CheckOperand::kRow:
      return chain.rows[at.row(chain.row_strides)];
    case CheckOperand::kScore:
      return load_element(chain.scores, at.row(chain.score_strides) + at.key, type);
    case CheckOperand::kScore32:
      return load_element(chain.scores, at.row(chain.score_strides) + at.key, ElementType::kF32);
    default:
      return chain.numbers[i];
  }
}

template <typename Real>
__device__ inline Real checked_chain(const CheckChain& chain, const CheckedScore& at, ElementType type, Real score) {
  for (int i = 0; i < chain.count; ++i)
    score = checked_step<Real>(chain.steps[i], score, checked_operand(chain, i, at, type), chain.highs[i]);
  return score;
}

}  // namespace gqa

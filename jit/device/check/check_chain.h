// check_chain.h: what becomes of each score, as the verification kernels are told: data, since one source verifies all
// problems. The same for the host compiler and NVRTC.
// Owns: CheckChain, the numbers of its steps and the arrays that they read.
// Never: used by the kernels that serve users; folds factors as these do.
// Threads: plain data.
#pragma once

#include "attention/common/params.h"

namespace gqa {

enum class CheckStep : int {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kExp,
  kExp2,
  kSqrt,
  kRsqrt,
  kSquare,
  kReciprocal,
  kRelu,
  kSilu,
  kGelu,
  kTanh,
  kClamp,
};

// Where a step's second operand is: among CheckChain's numbers, or in one of its arrays, of which the last holds 16-bit
// elements of q's type or float32.
enum class CheckOperand : int { kNumber, kHead, kRow, kScore, kScore32 };

struct CheckChain {
  int count;
  CheckStep steps[4];
  CheckOperand operands[4];
  float numbers[4];  // second operands; unused where a step has none
  float highs[4];    // third operands: clamp's
  const float* heads;
  const float* rows;
  TensorStrides row_strides;
  const void* scores;
  TensorStrides score_strides;
  const float* sink;  // a number of each query head, beside the scores; null: none
};

static_assert(sizeof(CheckChain) == 152, "host and device must agree on CheckChain");

}  // namespace gqa

// check_chain.h: what becomes of each score, as the verification kernels are told: data, since one source verifies all
// problems. The same for the host compiler and NVRTC.
// Owns: CheckChain and the numbers of its steps.
// Never: used by the kernels that serve users; folds factors as these do.
// Threads: plain data.
#pragma once

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

struct CheckChain {
  int count;
  CheckStep steps[4];
  float numbers[4];  // second operands; unused where a step has none
  float highs[4];    // third operands: clamp's
};

static_assert(sizeof(CheckChain) == 52, "host and device must agree on CheckChain");

}  // namespace gqa

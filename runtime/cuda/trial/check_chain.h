// check_chain.h: a call's chain in the verification kernels' words.
// Owns: which of their steps an operator is.
// Never: computes. Threads: pure functions.
#pragma once

#include "jit/device/check/check_chain.h"
#include "runtime/device.h"

namespace gqa {

// False where the verification kernels have no such step.
bool check_step_of(Op op, CheckStep* step);

CheckChain check_chain_of(const Call& call);

}  // namespace gqa

// score_steps.h: the chain that scores go through before the mask and the softmax, on the CPU.
// Owns: scale and steps of a problem's chain on a row of scores, by the operators of graphs (program/ops.h).
// Never: masks or folds factors: what the softmax then takes is the scores themselves.
// Threads: any.
#pragma once

#include "runtime/device.h"

namespace gqa {

// q k^T becomes the chain's scores, in place. Of calls whose problem has a chain.
void take_score_steps(const Call& call, float* scores, int count);

}  // namespace gqa

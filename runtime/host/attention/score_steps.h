// score_steps.h: the chain that scores go through before the mask and the softmax, on the CPU.
// Owns: scale and steps of a problem's chain on a row of scores, by the operators of graphs (program/ops.h).
// Never: masks or folds factors: what the softmax then takes is the scores themselves.
// Threads: any.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace gqa {

// Where a row's scores are: of the keys from first_key on.
struct ScoresPlace {
  int batch, head;
  std::int64_t position;  // of the query
  int first_key;
};

// q k^T becomes the chain's scores, in place. The call's problem has a chain.
void take_score_steps(const Call& call, const ScoresPlace& place, float* scores, int count);

}  // namespace gqa

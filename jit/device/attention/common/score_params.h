// score_params.h: what a launch says of scores: the numbers of the chain that each goes through, and the sinks. Laid
// out the same by the host compiler and by NVRTC. Owns: ScoreParams, the last argument of the kernels that need it.
// Never: is given to a kernel without such numbers; holds an operator, which is the generated Config's. Threads: plain
// data, read-only on the device.
#pragma once

#include "attention/common/params.h"

namespace gqa {

// Arrays are null where the chain reads none of the kind. Strides may be 0: one number serves all.
struct ScoreParams {
  float factor;        // of q k^T before the other steps: the call's scale, and the chain's first factors
  float slots[4];      // numbers of the call
  const float* sink;   // a number of each query head, as scores are, in the units of exp; null where there is none
  const float* heads;  // of each query head
  const float* rows;   // of each query row
  TensorStrides row_strides;    // of rows
  const void* scores;           // of each score: a row's keys side by side
  TensorStrides score_strides;  // of scores' rows
};

static_assert(sizeof(ScoreParams) == 104, "host and device must agree on ScoreParams");

}  // namespace gqa

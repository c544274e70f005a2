// reference.h: attention as its formula is written, one row at a time, on the CPU.
// Owns: out = softmax(scale q k^T + mask) v in float64 and float32, and the naive 16-bit computation whose error is the
// yardstick of verification.
// Never: fast; never shares code with what it judges.
// Threads: pure functions of host memory.
#pragma once

#include "runtime/device.h"

namespace gqa {

// Row (batch, head, position) of a call in host memory: head_dim_v outputs, and the log-sum-exp. A row that sees no key
// gives zeros and -inf.
void reference_row(const Call& call, int batch, int head, int position, double* out, double* lse);
void reference_row(const Call& call, int batch, int head, int position, float* out, float* lse);

// In float32, but rounded to the call's dtype where a naive 16-bit program rounds: scores, normalised probabilities,
// output.
void naive_row(const Call& call, int batch, int head, int position, float* out, float* lse);

}  // namespace gqa

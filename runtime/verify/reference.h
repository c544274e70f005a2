// reference.h: what attention must give at some of its rows, and what errors there are measured in; on the CPU.
// Owns: reference_rows(), as the formula has it: scores, their chain, softmax, weighted sum; of 16 bits in float32,
// long sums in float64, of float32 all in float64. Never: shares code with what it judges; chooses rows
// (attention_check.h does). Threads: pure functions of host memory; they compute on the workers' threads.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device.h"
#include "runtime/verify/judgement.h"
#include "search/graph/workers.h"

namespace gqa {

struct RowPlace {
  int batch, head, position;
};

struct ReferenceRows {
  std::vector<double> out;  // head_dim_v a row
  std::vector<float> lse;   // natural log of the sum of exp(scaled scores)
  // What each row's error is measured in (judgement.h), beside the naive computation. Of 16 bits that is
  // FlashAttention-2's stand-in: weights under the exact maximum rounded to the call's dtype for the second product,
  // the sum of unrounded ones, the output rounded. For float32 it is the formula in float32.
  std::vector<RowUnit> units;
};

// Multiply-adds that a row costs, about.
std::int64_t reference_work(const Problem& problem);

// A row that sees no key gives zeros, and the log-sum-exp of what else its sum has, or -inf. Once the workers are told
// to stop, the result means nothing.
ReferenceRows reference_rows(const Call& call, const std::vector<RowPlace>& rows, const Workers& workers);

}  // namespace gqa

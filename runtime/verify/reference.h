// reference.h: what attention must give at some of its rows, and the error of the naive 16-bit computation there, the
// yardstick of verification; on the CPU.
// Owns: reference_rows(), as the formula has it: scores, their chain, softmax, weighted sum; in float32, long sums in
// float64. Never: shares code with what it judges; chooses rows (attention_check.h does). Threads: pure functions of
// host memory; they compute on the workers' threads.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device.h"
#include "search/graph/workers.h"

namespace gqa {

struct RowPlace {
  int batch, head, position;
};

struct ReferenceRows {
  std::vector<float> out;  // head_dim_v a row
  std::vector<float> lse;  // natural log of the sum of exp(scaled scores)
  // max |naive - out|, of the computation rounded to the call's dtype where a naive 16-bit program rounds: scores,
  // normalised probabilities, output.
  double naive_error = 0;
  double largest = 0;  // max |out|
};

// Multiply-adds that a row costs, about.
std::int64_t reference_work(const Problem& problem);

// A row that sees no key gives zeros and its sink, or -inf. Once the workers are told to stop, the result means
// nothing.
ReferenceRows reference_rows(const Call& call, const std::vector<RowPlace>& rows, const Workers& workers);

}  // namespace gqa

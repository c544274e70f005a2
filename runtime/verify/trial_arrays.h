// trial_arrays.h: what a trial's chain on scores reads of heads, rows and scores: numbers as models have them.
// Owns: factors about 1 and biases about as large as scores, from a fixed seed; where a bias is added last, as masks
// are, some are -inf, and whole rows the type's least number, as padding is often written.
// Never: owns device memory. Is as large as all scores: their rows overlap, each a few elements after the last, so that
// whoever takes a neighbour's is seen.
// Threads: a value; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/verify/trial_operand.h"
#include "search/problem/problem.h"

namespace gqa {

// Empty where the problem's chain reads none of the kind.
struct TrialArrays {
  std::vector<float> factors;        // of query heads, or of query rows
  std::vector<std::uint8_t> scores;  // bytes of elements
  Strides factor_strides, score_strides;
};

TrialArrays trial_arrays(const Problem& problem, std::uint64_t seed);

// Those that there are, by role; good as long as the arrays are.
TrialOperands operands_of(const TrialArrays& arrays);

}  // namespace gqa

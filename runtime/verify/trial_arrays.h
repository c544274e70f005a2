// trial_arrays.h: the numbers that a trial's call brings for its scores and beside them, as models have them.
// Owns: factors about 1 and biases about as large as scores, from a fixed seed; where a bias is added last, as masks
// are, some are -inf, and whole rows the type's least number, as padding is often written; what stands beside a row's
// scores near what they sum to. Never: owns device memory. Is as large as all scores: their rows overlap, each a few
// elements after the last, so that whoever takes a neighbour's is seen. Threads: a value; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/verify/trial_operand.h"
#include "search/problem/problem.h"

namespace gqa {

struct TrialArray {
  Role role;
  std::vector<std::uint8_t> bytes;
  Strides strides = {};
};

// Those that the problem reads.
using TrialArrays = std::vector<TrialArray>;
TrialArrays trial_arrays(const Problem& problem, std::uint64_t seed);

// Good as long as the arrays are.
TrialOperands operands_of(const TrialArrays& arrays);

}  // namespace gqa

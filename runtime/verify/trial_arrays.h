// trial_arrays.h: what a trial's chain on scores reads of heads, rows and scores: numbers as models have them.
// Owns: factors about 1 and biases about as large as scores, from a fixed seed; where a bias is added last, as masks
// are, some are -inf, and whole rows the type's least number, as padding is often written.
// Never: owns device memory. Is as large as all scores: their rows overlap, each a few elements after the last, so that
// whoever takes a neighbour's is seen.
// Threads: a value; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device.h"

namespace gqa {

// Empty where the problem's chain reads none of the kind.
struct TrialArrays {
  std::vector<float> heads, rows;
  std::vector<std::uint8_t> scores;  // bytes of elements
  Strides row_strides, score_strides;
};

TrialArrays trial_arrays(const Problem& problem, std::uint64_t seed);

// The same where it lies.
ChainArrays given_arrays(const TrialArrays& arrays, const float* heads, const float* rows, const void* scores);

}  // namespace gqa

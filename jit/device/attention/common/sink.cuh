// sink.cuh: a number of each query head that joins the softmax's denominator and adds no value.
// Owns: RowTotal, a row's sum with the sink in it. Xiao et al., "Efficient streaming language models with attention
// sinks", 2023, for the idea; here it is learned, and no key.
// Never: is asked before all keys of a row are summed: a part of them takes no sink.
// Threads: values.
#pragma once

#include "attention/common/features.cuh"
#include "attention/common/softmax.cuh"
#include "ptx/fast_math.cuh"

namespace gqa {

struct RowTotal {
  float shift;  // what exponents are taken relative to
  float sum;    // of all exponentials under it; 0: the row saw no key, and the sink is -inf

  // What rows that were accumulated under this maximum are multiplied by.
  __device__ float weight(float maximum, float scale_log2) const {
    return inverse_or_zero(sum) * exp2_approx(scaled(maximum, scale_log2) - shift);
  }
  __device__ float lse(float) const { return sum == 0 ? negative_infinity() : (shift + __log2f(sum)) * kLn2; }
};

// Of packed row `row`, of the head groups' first head `head`; its own maximum and sum are those of its keys.
template <typename Config>
__device__ inline RowTotal with_sink(float maximum, float sum, float scale_log2, const ScoreParams& numbers, int head,
                                     int row) {
  const float sink = __ldg(numbers.sink + head + row % Config::kPack) * kLog2E;
  const float highest = scaled(maximum, scale_log2), shift = fmaxf(highest, sink);
  if (shift == negative_infinity()) return {0.f, 0.f};
  return {shift, sum * exp2_approx(highest - shift) + exp2_approx(sink - shift)};
}

}  // namespace gqa

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
  float highest;  // the larger of the sink and the row's largest scaled score
  float sum;      // of all exponentials relative to it; 0: the row saw no key, and the sink is -inf
  float of_keys;  // what weights relative to the row's maximum are multiplied by

  // What the row is multiplied by.
  __device__ float weight() const { return inverse_or_zero(sum) * of_keys; }
  __device__ float lse(float) const { return sum == 0 ? negative_infinity() : fmaf(__log2f(sum), kLn2, highest); }
};

// The total of packed row `row` and its sink; `head`: the first head of its group. `maximum` and `sum` are those of its
// keys.
template <typename Config>
__device__ inline RowTotal with_sink(float maximum, float sum, float scale_log2, const ScoreParams& numbers, int head,
                                     int row) {
  const float sink = __ldg(numbers.sink + head + row % Config::kPack), scale = scale_log2 * kLn2;
  if (maximum == negative_infinity() && sink == negative_infinity()) return {0.f, 0.f, 0.f};
  // Natural, since log2(e) times the largest sinks overflows, and in one rounding: both may be far from zero.
  const float above = fmaf(maximum, scale, -sink);
  const float of_keys = fast_exp(above < 0 ? above : 0.f), of_sink = fast_exp(above <= 0 ? 0.f : -above);
  return {fmaxf(maximum * scale, sink), sum * of_keys + of_sink, of_keys};
}

}  // namespace gqa

// warpgroup_weights.cuh: a warpgroup's scores or exponentials to the 16-bit weights that its second product takes.
// Owns: their layout, the A operand's as well as the accumulators'.
// Never: looks at maxima; those are given, as offsets.
// Threads: values of one thread.
#pragma once

#include "attention/wgmma_flash/warpgroup_features.cuh"
#include "attention/wgmma_flash/warpgroup_hints.cuh"

namespace gqa {

// A stale maximum serves as long as a row's own has not outgrown it by kBelow + 1 powers of two. FlashAttention-2
// renews it in each block, so that the weights of the highest keys so far are 1 and not rounded; without a limit the
// error was 1.3 of its. Where the sum is of rounded weights, it matters less (docs/performance/softmax.md). Weights are
// 2^-kBelow of what they would be: where a maximum does not serve, one is 2 or more, from where on float32 and both
// 16-bit types set their highest exponent bit, and many are checked by one test.
template <typename Config>
constexpr int kBelow = ones_column<Config>()                                          ? 3
                       : kIsSame<typename Config::Kv, F16> || Config::kHeadDimV > 128 ? 1
                                                                                      : 2;
// Blocks of a walk that are exact after the masked ones, or after the first: their rows' maxima still grow so often
// that stale ones would mostly not serve. Under a mask a row's first block may have held a single key.
template <typename Config>
constexpr int kExactBlocks = kBelow<Config> > 1 ? Walk<Config>::kRowsDiffer : 3;
constexpr u32 kFromTwoOn = 0x40004000, kFloatFromTwoOn = 0x40000000;

// Exponentials to weights. Keys without scores weigh nothing.
template <typename Config, int kFragments, int kProducts>
__device__ inline void pack_weights(const float (&scores)[kFragments][4], u32 (&weights)[kProducts][4]) {
#pragma unroll
  for (int k = 0; k < kFragments / 2; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* s = &scores[2 * k + i / 2][i % 2 * 2];
      weights[k][i] = Config::Kv::pack(s[0], s[1]);
    }
#pragma unroll
  for (int k = kFragments / 2; k < kProducts; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[k][i] = 0;
}

// The weights of a speculative softmax, under the stale maxima; for a PV that sums them.
template <typename Config>
struct SpeculativeWeights {
  // A score times scale_log2, plus offset[h] of its row half h, is the exponent of 2. Offsets are +inf in a row that
  // has seen no key, or is far from zero: no weight of its passes.
  float scale_log2, offset[2];

  SpeculativeWeights() = default;
  __device__ SpeculativeWeights(float scale, const float (&offsets)[2])
      : scale_log2(scale), offset{offsets[0], offsets[1]} {}

  __device__ float exponential(float score, int h) const { return exp2_approx(fmaf(score, scale_log2, offset[h])); }

  // False where one is 2 or more.
  template <int kFragments, int kProducts>
  __device__ bool weigh(const float (&scores)[kFragments][4], u32 (&weights)[kProducts][4]) const {
    u32 bits = 0;
#pragma unroll
    for (int k = 0; k < kProducts; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[2 * k + i / 2][i % 2 * 2];
        weights[k][i] = Config::Kv::pack(exponential(s[0], i % 2), exponential(s[1], i % 2));
        bits |= weights[k][i];
      }
    return (bits & kFromTwoOn) == 0;
  }
};

}  // namespace gqa

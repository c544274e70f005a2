// warpgroup_weights.cuh: a warpgroup's scores or exponentials to the 16-bit weights that its second product takes.
// Owns: their layout, the A operand's as well as the accumulators', and which exponentials are emulated (exp2_fma.cuh).
// Never: looks at maxima; those are given, as offsets.
// Threads: values of one thread.
#pragma once

#include "attention/wgmma_flash/exp2_fma.cuh"
#include "attention/wgmma_flash/folded_scale.cuh"
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

// How a score of row half h becomes a power of two under the maximum that there is. Offsets are +inf in a row that has
// seen no key: no weight of its passes.
template <typename Config, bool kFoldedScale = folded_scale<Config>()>
struct Exponents {
  using Packed = Exp2Fma<typename Config::Kv>;

  float scale_log2, offset[2];
  Packed packed;

  Exponents() = default;
  __device__ Exponents(float scale, const float (&offsets)[2])
      : scale_log2(scale), offset{offsets[0], offsets[1]}, packed(scale, offsets) {}

  __device__ float operator()(float score, int h) const { return fmaf(score, scale_log2, offset[h]); }
  __device__ Packed emulation() const { return kKeepsExp2Fma<Config> ? packed : Packed(scale_log2, offset); }
};

// The products have seen to it.
template <typename Config>
struct Exponents<Config, true> {
  using Packed = Exp2Fma<typename Config::Kv>;

  __device__ float operator()(float score, int) const { return score; }
  __device__ Packed emulation() const { return Packed(1, {0, 0}); }
};

// The weights of a speculative softmax, under the stale maxima; for a PV that sums them.
template <typename Config>
struct SpeculativeWeights {
  using Element = typename Config::Kv;
  using Packed = Exp2Fma<Element>;

  Exponents<Config> exponents;

  SpeculativeWeights() = default;
  __device__ SpeculativeWeights(float scale, const float (&offsets)[2]) : exponents(scale, offsets) {}

  // False where one is 2 or more, or its exponent out of the emulation's range.
  template <int kFragments, int kProducts>
  __device__ bool weigh(const float (&scores)[kFragments][4], u32 (&weights)[kProducts][4]) {
    Packed emulated = exponents.emulation();
    u32 bits = 0;
#pragma unroll
    for (int k = 0; k < kProducts; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &scores[2 * k + i / 2][i % 2 * 2];
        if (is_packed<4 * kProducts>(4 * k + i)) {
          weights[k][i] = emulated(s[0], s[1], i % 2);
          if constexpr (!Packed::kSeesTwo) bits |= weights[k][i];
        } else {
          weights[k][i] = Element::pack(exp2_approx(exponents(s[0], i % 2)), exp2_approx(exponents(s[1], i % 2)));
          bits |= weights[k][i];
        }
      }
    return (bits & kFromTwoOn) == 0 && (kExp2Fma == 0 || emulated.all_fit());
  }

  // Which of so many pairs of weights are emulated: the first, so that their arithmetic runs under the exponentials
  // of the others.
  static constexpr int kExp2Fma = exp2_fma<Config>();
  template <int kPairs>
  __device__ static constexpr bool is_packed(int pair) {
    if constexpr (kExp2Fma == 0) return false;
    return pair * kExp2Fma < kPairs;
  }
};

}  // namespace gqa

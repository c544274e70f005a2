// packed_exp.cuh: two exponentials at once as bfloat16, without the special-function unit.
// Owns: the arithmetic: an exponent's integer part and seven bits of its fraction are the bits of a bfloat16, which a
// parabola in its significand then corrects (after Schraudolph, "A fast, compact approximation of the exponential
// function", 1999). Off by 0.4 % as a rule and 1.4 % at most, where rounding alone is off by 0.2 and 0.4 %; whole
// powers of two are exact. Shifts beyond 2^15 are rounded, as their float32 is.
// Never: sees a NaN: it is nothing here; the exact exponentials beside it show it.
// Threads: values of one thread.
#pragma once

#include "element.cuh"

namespace gqa {

// PTX ISA 9.7.4.4, fma.bf16x2, and 9.7.4.3, mul.bf16x2.
__device__ inline u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ inline u32 mul_bf16x2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// 2^(scale * score - shift[half]) of many scores; sees whether one reached 2.
class PackedExp {
 public:
  __device__ PackedExp(float scale, const float (&shift)[2])
      : scale_(scale * kSteps), offset_{kZero + (kBias - shift[0]) * kSteps, kZero + (kBias - shift[1]) * kSteps} {}

  __device__ u32 operator()(float low, float high, int half) {
    const u32 a = bits_of(low, half), b = bits_of(high, half);
    reached_ |= a | b;
    const u32 line = __byte_perm(a, b, 0x5410);  // 2^integer (1 + fraction): a chord of the curve
    const u32 significand = (line & 0x007f007f) | 0x3f803f80;
    return mul_bf16x2(line, fma_bf16x2(significand, fma_bf16x2(significand, kSquare, kLinear), kConstant));
  }

  __device__ bool below_two() const { return (reached_ & kAbove) == kZeroBits; }

 private:
  static constexpr float kSteps = 128, kBias = 127;  // of a bfloat16's significand and exponent
  // A float32 whose last bit is worth 1, so that sums with it are rounded to whole numbers in its low bits.
  static constexpr float kZero = 12582912;
  static constexpr u32 kZeroBits = 0x4b400000;
  static constexpr u32 kAbove = ~0x3fffu;  // bits that numbers from 0 to 2's share with kZero
  // 2^f / (1 + f) as 0.2373 y^2 - 0.707 y + 1.469, y = 1 + f, twice; 1 at y = 1 by bfloat16's own arithmetic.
  static constexpr u32 kSquare = 0x3e733e73, kLinear = 0xbf35bf35, kConstant = 0x3fbc3fbc;

  // Exponents below -127 are taken for it; unclamped, each would have its block computed again.
  __device__ u32 bits_of(float score, int half) const {
    return __float_as_uint(fmaxf(fmaf(score, scale_, offset_[half]), kZero));
  }

  float scale_, offset_[2];
  u32 reached_ = kZeroBits;
};

}  // namespace gqa

// packed_exp.cuh: two exponentials at once as bfloat16, without the special-function unit.
// Owns: the arithmetic: an exponent's integer part and seven bits of its fraction are the bits of a bfloat16, which a
// parabola in its significand then corrects (after Schraudolph, "A fast, compact approximation of the exponential
// function", 1999). Off by 0.4 % as a rule and 1.4 % at most, where rounding alone is off by 0.2 and 0.4 %; whole
// powers of two are exact. Shifts beyond 2^15 are rounded, as their float32 is.
// Never: answers for exponents below -127, from 1 on, or that are no numbers: it sees them, and leaves the rest to the
// caller.
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

// 2^(scale * score + offset[half]) of many scores; sees whether all of them were from 0 to 2.
class PackedExp {
 public:
  PackedExp() = default;
  __device__ PackedExp(float scale, const float (&offset)[2])
      : scale_(scale * kSteps), offset_{fmaf(offset[0], kSteps, kBiased), fmaf(offset[1], kSteps, kBiased)} {}

  __device__ u32 operator()(float low, float high, int half) {
    const u32 a = bits_of(low, half), b = bits_of(high, half);
    seen_ |= a;
    seen_ |= b;
    const u32 line = __byte_perm(a, b, 0x5410);  // 2^integer (1 + fraction): a chord of the curve
    const u32 significand = line | 0x3f803f80;   // below 2 the two bits that are not set here are 0
    return mul_bf16x2(line, fma_bf16x2(significand, fma_bf16x2(significand, kSquare, kLinear), kConstant));
  }

  // Also false of zeros alone.
  __device__ bool all_below_two() const { return (seen_ & kAbove) == kTwoBits; }

 private:
  // Of a float32 from 2 to 4 the last bit is worth 2^-22, and a bfloat16 has 128 steps from one power of two to the
  // next: 2 and so many 2^-15 hold an exponent's bfloat16 in their low half. Those up to 2's bits differ from 2 in 14
  // bits only; whatever is smaller, negative, larger or no number sets another one, but for 0, which is 0 here, too.
  static constexpr float kSteps = 1.f / 32768, kBias = 127;
  static constexpr float kBiased = 2 + kBias * kSteps;
  static constexpr u32 kTwoBits = 0x40000000;
  static constexpr u32 kAbove = ~0x3fffu;
  // 2^f / (1 + f) as 0.2373 y^2 - 0.707 y + 1.469, y = 1 + f, twice; 1 at y = 1 by bfloat16's own arithmetic.
  static constexpr u32 kSquare = 0x3e733e73, kLinear = 0xbf35bf35, kConstant = 0x3fbc3fbc;

  __device__ u32 bits_of(float score, int half) const { return __float_as_uint(fmaf(score, scale_, offset_[half])); }

  float scale_, offset_[2];
  u32 seen_ = 0;
};

}  // namespace gqa

// exp2_fma.cuh: exp2 emulation on the FMA units: two exponentials at once as 16-bit elements, after Schraudolph.
// Owns: the arithmetic: an exponent's integer part and the first bits of its fraction are the bits of an element, which
// a polynomial in its significand then corrects (Schraudolph, "A fast, compact approximation of the exponential
// function", 1999). bfloat16 is off by 0.4 % as a rule and 1.4 % at most, where rounding alone is off by 0.2 and 0.4 %;
// float16 by 0.07 and 0.2 %, where it is 0.02 and 0.05 %; whole powers of two are exact. Shifts beyond 2^15 (bfloat16)
// and 2^12 (float16) are rounded, as their float32 is.
// Never: answers for exponents that are too high or no numbers, nor for bfloat16's that are too low: it sees them, and
// leaves the rest to the caller.
// Threads: values of one thread.
#pragma once

#include "ptx/element.cuh"

namespace gqa {

// Two elements in a word. PTX ISA 9.7.4.4, fma, and 9.7.4.3, mul, of half precision.
template <typename Element>
struct Pair;
template <>
struct Pair<BF16> {
  static __device__ u32 fma(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
  }
  static __device__ u32 multiply(u32 a, u32 b) {
    u32 d;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
  }
};
template <>
struct Pair<F16> {
  static __device__ u32 fma(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
  }
  static __device__ u32 multiply(u32 a, u32 b) {
    u32 d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
  }
};
// 9.7.8.6, lop3: (a & mask) | set. Left to itself the compiler takes two instructions for two constants.
__device__ inline u32 and_or(u32 a, u32 mask, u32 set) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(set));
  return d;
}
// 9.7.1.13, max: of each half, as unsigned numbers. The assembler makes one instruction of two.
__device__ inline u32 max_halves(u32 a, u32 b) {
  u32 d;
  asm("max.u16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// 9.7.3.12, max: what is no number stays none.
__device__ inline float max_nan(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

// Of a float32 from 2 to 4 the last bit is worth 2^-22; an element has kSteps^-1 of them from one power of two to the
// next: 2 and (exponent + kBias) kSteps hold the exponent's element in their low half, linear between powers of two:
// 2^integer (1 + fraction). Of all float32 those whose element will do have the same bits in kAbove, kTwo's; others
// have one more there, but for 0, whose element is 0. clamp(): raises those below to one whose element is 0, where
// there is any, and keeps what is no number. correct(): 2^f / (1 + f) times that, as a polynomial of y = 1 + f.
template <typename Element>
struct Schraudolph;

// All 127 powers below 2: whatever is smaller, negative, larger or no number is seen, and nothing clamped.
template <>
struct Schraudolph<BF16> {
  static constexpr float kSteps = 1.f / 32768, kBias = 127;
  static constexpr u32 kAbove = ~0x3fffu;
  static constexpr bool kSeesTwo = true;  // else what is 2 or more is, as any other weight

  static __device__ float clamp(float biased) { return biased; }

  // 0.2373 y^2 - 0.707 y + 1.469, twice; 1 at y = 1 by bfloat16's own arithmetic.
  static __device__ u32 correct(u32 linear) {
    constexpr u32 kSquare = 0x3e733e73, kLinear = 0xbf35bf35, kConstant = 0x3fbc3fbc;
    const u32 y = linear | 0x3f803f80;  // below 2 the two bits that are not set here are 0
    return Pair<BF16>::multiply(linear, Pair<BF16>::fma(y, Pair<BF16>::fma(y, kSquare, kLinear), kConstant));
  }
};

// Negative, and 2^10 times too large: the 32 powers of two that have a sign are then those from 2^-25 to 2^6, and what
// is below becomes the least of them, which is 0. Above, infinities come out, and then the bits in kAbove tell.
template <>
struct Schraudolph<F16> {
  static constexpr float kSteps = 1.f / 4096, kBias = 57;
  static constexpr u32 kAbove = ~0xffffu;
  static constexpr bool kSeesTwo = false;

  static __device__ float clamp(float biased) { return max_nan(biased, 2 + 32 * kSteps); }

  // -2^-10 (-0.1028 y^3 + 0.6914 y^2 - 1.3555 y + 1.7666), twice; -2^-10 at y = 1 by float16's own arithmetic.
  static __device__ u32 correct(u32 linear) {
    constexpr u32 kCube = 0x06940694, kSquare = 0x91889188, kLinear = 0x156c156c, kConstant = 0x97119711;
    const u32 y = and_or(linear, 0x03ff03ff, 0x3c003c00);
    const u32 slope = Pair<F16>::fma(y, Pair<F16>::fma(y, kCube, kSquare), kLinear);
    return Pair<F16>::multiply(linear, Pair<F16>::fma(y, slope, kConstant));
  }
};

// 2^(scale * score + offset[half]) of many scores; sees whether all of them could be had.
template <typename Element>
class Exp2Fma {
 public:
  using Approximation = Schraudolph<Element>;
  static constexpr bool kSeesTwo = Approximation::kSeesTwo;

  Exp2Fma() = default;
  __device__ Exp2Fma(float scale, const float (&offset)[2])
      : scale_(scale * Approximation::kSteps),
        offset_{fmaf(offset[0], Approximation::kSteps, kBiased), fmaf(offset[1], Approximation::kSteps, kBiased)} {}

  __device__ u32 operator()(float low, float high, int half) {
    const u32 a = bits_of(low, half), b = bits_of(high, half);
    seen_ |= a;
    seen_ |= b;
    return Approximation::correct(__byte_perm(a, b, 0x5410));
  }

  // With kSeesTwo, also that they were below 2. Also false of zeros alone.
  __device__ bool all_fit() const { return (seen_ & Approximation::kAbove) == kTwo; }

 private:
  static constexpr float kBiased = 2 + Approximation::kBias * Approximation::kSteps;
  static constexpr u32 kTwo = 0x40000000;

  __device__ u32 bits_of(float score, int half) const {
    return __float_as_uint(Approximation::clamp(fmaf(score, scale_, offset_[half])));
  }

  float scale_, offset_[2];
  u32 seen_ = 0;
};

}  // namespace gqa

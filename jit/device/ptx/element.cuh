// element.cuh: element types, as bits, and functions of their float32 values that are one instruction.
// Owns: F16, BF16 and F32 with the conversions the kernels need, from raw PTX: no toolkit header is included anywhere.
// Never: computes in 16 bits; arithmetic is float32.
// Threads: per-lane values.
#pragma once

namespace gqa {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

__device__ inline float bits_to_float(u32 bits) { return __uint_as_float(bits); }
constexpr float kLn2 = 0.6931471805599453f;
__device__ inline float negative_infinity() { return __int_as_float(0xff800000); }

struct F16 {
  using Bits = u16;
  // PTX ISA 9.7.9.21, cvt: the first source lands in the upper half.
  static __device__ u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ float to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

struct BF16 {
  using Bits = u16;
  static __device__ u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ float to_float(u16 bits) { return bits_to_float(static_cast<u32>(bits) << 16); }
};

// The type of graphs' tiles, of states that are merged, and of biases.
struct F32 {
  static constexpr int kBytes = 4;
  using Bits = u32;
  static __device__ float to_float(u32 bits) { return bits_to_float(bits); }
  static __device__ u32 from_float(float value) { return __float_as_uint(value); }
};

template <typename A, typename B>
inline constexpr bool kIsSame = false;
template <typename A>
inline constexpr bool kIsSame<A, A> = true;

// PTX ISA 9.7.3.22, ex2: 2^x, relative error under 2^-22; ex2(-inf) is 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// PTX ISA 9.7.3.17, rcp: 1/x, relative error under 2^-23; 0 for infinity.
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace gqa

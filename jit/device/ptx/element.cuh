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

// As search/element_type.h has them: what a launch says of a tensor.
enum class ElementType { kF16, kBF16, kF32 };

// Pair: two elements side by side; Quad: four.
struct F16 {
  using Bits = u16;
  using Pair = u32;
  using Quad = uint2;
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
  using Pair = u32;
  using Quad = uint2;
  static __device__ u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ float to_float(u16 bits) { return bits_to_float(static_cast<u32>(bits) << 16); }
};

struct F32 {
  static constexpr int kBytes = 4;
  using Bits = u32;
  using Pair = uint2;
  using Quad = uint4;
  static __device__ uint2 pack(float low, float high) {
    return make_uint2(__float_as_uint(low), __float_as_uint(high));
  }
  static __device__ float to_float(u32 bits) { return bits_to_float(bits); }
  static __device__ u32 from_float(float value) { return __float_as_uint(value); }
};

// Two pairs side by side, and the elements of one.
__device__ inline uint2 quad_of(u32 first, u32 second) { return make_uint2(first, second); }
__device__ inline uint4 quad_of(const uint2& first, const uint2& second) {
  return make_uint4(first.x, first.y, second.x, second.y);
}
__device__ inline void unpack(u32 pair, u16& first, u16& second) {
  first = static_cast<u16>(pair);
  second = static_cast<u16>(pair >> 16);
}
__device__ inline void unpack(const uint2& pair, u32& first, u32& second) {
  first = pair.x;
  second = pair.y;
}

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

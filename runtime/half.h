// half.h: float16 and bfloat16 as bits, on the CPU.
// Owns: conversions to and from float32: round to nearest even, overflow to infinity, NaN kept.
// Never: used by the host's tile kernels, which widen whole rows with the processor's own instructions.
// Threads: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "search/problem/problem.h"

namespace gqa {

inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, rest = bits & 0x7fffU;
  if (rest < 0x400U) {  // zero or subnormal: exact in float32
    const float magnitude = static_cast<float>(rest) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  // The exponent's bias moves from 15 to 127; infinity and NaN keep an exponent of all ones.
  const std::uint32_t shift = (rest >= 0x7c00U ? 255U - 31U : 127U - 15U) << 23;
  return std::bit_cast<float>(((rest << 13) + shift) | sign);
}

inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | (rest >> 13 & 0x3ffU));
  if (rest >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (rest < 0x38800000U) {
    // A subnormal's last place is 2^-24, that of 0.5 in float32: the addition rounds to it.
    const float rounded = std::bit_cast<float>(rest) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000U));
  }
  return static_cast<std::uint16_t>(sign | (rest - 0x38000000U + 0xfffU + (rest >> 13 & 1U)) >> 13);
}

inline float load(DType dtype, std::uint16_t bits) {
  return dtype == DType::kBF16 ? bfloat16_to_float(bits) : half_to_float(bits);
}

inline std::uint16_t store(DType dtype, float value) {
  return dtype == DType::kBF16 ? float_to_bfloat16(value) : float_to_half(value);
}

}  // namespace gqa

// element.h: elements of tensors as bits, on the CPU.
// Owns: float16 and bfloat16 to and from float32: round to nearest even, overflow to infinity, NaN kept; an
// element of any type, where it lies.
// Never: used by the host's tile kernels, which widen whole rows with the processor's own instructions.
// Threads: pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "search/element_type.h"

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

// The bits of one of the two types of 16 bits.
inline float load(ElementType type, std::uint16_t bits) {
  return type == ElementType::kBF16 ? bfloat16_to_float(bits) : half_to_float(bits);
}
inline std::uint16_t store(ElementType type, float value) {
  return type == ElementType::kBF16 ? float_to_bfloat16(value) : float_to_half(value);
}

// An element of any type.
inline float load_element(ElementType type, const std::byte* from) {
  if (type == ElementType::kF32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return load(type, bits);
}

inline void store_element(ElementType type, float value, std::byte* to) {
  if (type == ElementType::kF32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = store(type, value);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace gqa

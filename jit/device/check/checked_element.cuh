// checked_element.cuh: elements of tensors whose type is known at run time.
// Owns: loads, stores and roundings that the verification kernels make; one source verifies all types.
// Never: used by the kernels that serve users.
// Threads: values.
#pragma once

#include "ptx/element.cuh"

namespace gqa {

// An element of a tensor, counted from its first.
__device__ inline float load_element(const void* tensor, long long at, ElementType type) {
  if (type == ElementType::kF32) return static_cast<const float*>(tensor)[at];
  const u16 bits = static_cast<const u16*>(tensor)[at];
  return type == ElementType::kBF16 ? BF16::to_float(bits) : F16::to_float(bits);
}
__device__ inline void store_element(void* tensor, long long at, ElementType type, float x) {
  if (type == ElementType::kF32)
    static_cast<float*>(tensor)[at] = x;
  else
    static_cast<u16*>(tensor)[at] =
        static_cast<u16>(type == ElementType::kBF16 ? BF16::pack(x, 0.f) : F16::pack(x, 0.f));
}

__device__ inline float rounded(float x, ElementType type) {
  u32 bits;
  store_element(&bits, 0, type, x);
  return load_element(&bits, 0, type);
}

}  // namespace gqa

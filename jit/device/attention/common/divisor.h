// divisor.h: division by a number that is the same for a whole launch, as a multiplication and a shift.
// Owns: Divisor, made on the host, used on the device. Granlund & Montgomery, "Division by invariant integers using
// multiplication", 1994.
// Never: divides numbers of 2^31 and more: 32 bits of multiplier are exact only below.
// Threads: plain data.
#pragma once

namespace gqa {

struct Divisor {
  unsigned int multiplier;
  unsigned int shift;  // past the upper 32 bits of the product
};

#ifndef __CUDACC__
// value: 1 to 2^31 - 1.
constexpr Divisor divisor_of(int value) {
  unsigned int bits = 0;  // ceil(log2(value))
  while ((1u << bits) < static_cast<unsigned int>(value)) ++bits;
  // One is no multiplier of 32 bits: shift - 1 would be -1.
  if (bits == 0) return {0, 0};
  const unsigned long long power = 1ull << (31 + bits);
  return {static_cast<unsigned int>((power + static_cast<unsigned int>(value) - 1) / static_cast<unsigned int>(value)),
          bits - 1};
}

constexpr int quotient(int number, Divisor by) {
  if (by.multiplier == 0) return number;
  return static_cast<int>((static_cast<unsigned long long>(number) * by.multiplier) >> 32 >> by.shift);
}
#else
__device__ inline int quotient(int number, Divisor by) {
  return by.multiplier == 0 ? number : static_cast<int>(__umulhi(number, by.multiplier) >> by.shift);
}
#endif

}  // namespace gqa

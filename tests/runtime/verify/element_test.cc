// float16 and bfloat16 conversions: all 65,536 patterns, and every midpoint between two neighbours.

#include "runtime/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace gqa {
namespace {

struct Format {
  ElementType dtype;
  int mantissa_bits, exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits); }

  // What the bits mean, by the definition of a binary floating-point format.
  double meaning(std::uint16_t bits) const {
    const int magnitude = bits & 0x7fff, mantissa = magnitude & ((1 << mantissa_bits) - 1);
    const int exponent = magnitude >> mantissa_bits;
    const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias() - mantissa_bits)
                                       : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
    return (bits & 0x8000) != 0 ? -value : value;
  }
};

class Half : public ::testing::TestWithParam<Format> {};

TEST_P(Half, WidensEveryPattern) {
  const Format format = GetParam();
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = load(format.dtype, bits);
    if ((bits & 0x7fff) > format.infinity()) {
      ASSERT_TRUE(std::isnan(wide)) << i;
    } else if ((bits & 0x7fff) == format.infinity()) {
      ASSERT_EQ((bits & 0x8000) != 0 ? -INFINITY : INFINITY, wide) << i;
    } else {
      ASSERT_EQ(format.meaning(bits), double{wide}) << i;
      ASSERT_EQ((bits & 0x8000) != 0, std::signbit(wide)) << i;
    }
  }
}

TEST_P(Half, NarrowsWhatItWidened) {
  const Format format = GetParam();
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const std::uint16_t back = store(format.dtype, load(format.dtype, bits));
    if ((bits & 0x7fff) > format.infinity()) {
      ASSERT_GT(back & 0x7fff, format.infinity()) << "NaN " << i << " became a number";
    } else {
      ASSERT_EQ(bits, back);
    }
  }
}

// Between two neighbours the midpoint goes to the even one, and one float beside it to the nearer one.
TEST_P(Half, RoundsToNearestEven) {
  const Format format = GetParam();
  for (int i = 0; i + 1 < format.infinity(); ++i) {
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    const auto middle = static_cast<float>((format.meaning(low) + format.meaning(high)) / 2);
    const std::uint16_t even = (i & 1) == 0 ? low : high;
    ASSERT_EQ(even, store(format.dtype, middle)) << i;
    ASSERT_EQ(even | 0x8000, store(format.dtype, -middle)) << i;
    ASSERT_EQ(low, store(format.dtype, std::nextafter(middle, 0.0F))) << i;
    ASSERT_EQ(high, store(format.dtype, std::nextafter(middle, INFINITY))) << i;
  }
}

TEST_P(Half, OverflowsToInfinity) {
  const Format format = GetParam();
  const auto largest = static_cast<std::uint16_t>(format.infinity() - 1);
  const double step = format.meaning(largest) - format.meaning(static_cast<std::uint16_t>(largest - 1));
  const auto halfway = static_cast<float>(format.meaning(largest) + step / 2);
  EXPECT_EQ(largest, store(format.dtype, std::nextafter(halfway, 0.0F)));
  EXPECT_EQ(format.infinity(), store(format.dtype, halfway));
  EXPECT_EQ(format.infinity(), store(format.dtype, std::numeric_limits<float>::max()));
  EXPECT_EQ(format.infinity() | 0x8000, store(format.dtype, -std::numeric_limits<float>::max()));
}

TEST_P(Half, KeepsNaNsWhoseHighBitsAreClear) {
  const Format format = GetParam();
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU})
    EXPECT_TRUE(std::isnan(load(format.dtype, store(format.dtype, std::bit_cast<float>(bits))))) << std::hex << bits;
}

INSTANTIATE_TEST_SUITE_P(BothTypes, Half,
                         ::testing::Values(Format{ElementType::kF16, 10, 5}, Format{ElementType::kBF16, 7, 8}),
                         [](const auto& test) { return std::string(name(test.param.dtype)); });

}  // namespace
}  // namespace gqa

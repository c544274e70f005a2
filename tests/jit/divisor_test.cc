// divisor_test.cc: division by multiplication is division: every small pair, random large ones, and the numbers beside
// each divisor's multiples, where a multiplier one off would show.
#include "jit/device/attention/common/divisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace gqa {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();

static_assert(quotient(41, divisor_of(6)) == 6, "both halves run at compile time too");

// Numbers around as many multiples of the divisor as there are up to 2^31 - 1, at most a few; the last ones with them.
std::vector<int> telling_numbers(int divisor) {
  const std::int64_t last = kMost / divisor;
  std::vector<int> numbers = {0, 1, kMost - 1, kMost};
  for (const std::int64_t multiple : {std::int64_t{1}, std::int64_t{2}, last / 2, last - 1, last})
    for (const std::int64_t beside : {-1, 0, 1})
      numbers.push_back(static_cast<int>(std::clamp<std::int64_t>(multiple * divisor + beside, 0, kMost)));
  return numbers;
}

TEST(Divisor, EverySmallPair) {
  for (int by = 1; by <= 2000; ++by) {
    const Divisor divisor = divisor_of(by);
    for (int number = 0; number <= 6000; ++number) ASSERT_EQ(quotient(number, divisor), number / by) << by;
  }
}

TEST(Divisor, BesideMultiplesOfDivisorsOfEverySize) {
  std::mt19937 random(3);
  std::vector<int> divisors = {kMost, kMost - 1, kMost / 2, kMost / 3};
  for (int bits = 0; bits < 31; ++bits) {
    const int power = 1 << bits;
    for (const int by : {power - 1, power, power + 1}) divisors.push_back(std::max(by, 1));
    for (int i = 0; i < 2000; ++i)
      divisors.push_back(power + static_cast<int>(random() % static_cast<unsigned>(power)));
  }
  for (const int by : divisors) {
    const Divisor divisor = divisor_of(by);
    for (const int number : telling_numbers(by)) ASSERT_EQ(quotient(number, divisor), number / by) << by;
  }
}

TEST(Divisor, RandomPairs) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> any_number(0, kMost), any_divisor(1, kMost), any_shift(0, 30);
  for (int i = 0; i < 2'000'000; ++i) {
    const int by = std::max(1, any_divisor(random) >> any_shift(random)), number = any_number(random);
    ASSERT_EQ(quotient(number, divisor_of(by)), number / by) << number << " / " << by;
  }
}

}  // namespace
}  // namespace gqa

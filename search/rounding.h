// rounding.h: division and multiples of positive integers, rounded up.
// Owns: the two functions.
// Threads: pure.
#pragma once

#include <cstdint>

namespace gqa {

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return ceil_div(value, unit) * unit; }

}  // namespace gqa

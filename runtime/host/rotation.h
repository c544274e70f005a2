// rotation.h: how much memory a trial on the CPU may fill with inputs that take turns.
// Owns: rotated_bytes(). Filling is part of the budget: with a small one fewer sets take turns, and some are still in a
// cache when their turn comes.
// Never: allocates.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "runtime/effort.h"

namespace gqa {

inline std::int64_t rotated_bytes(const Effort& effort) {
  constexpr double kBytesASecond = 2e8;  // a tenth of what one core fills
  return static_cast<std::int64_t>(effort.budget() * kBytesASecond);
}

}  // namespace gqa

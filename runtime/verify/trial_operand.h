// trial_operand.h: a list or an array of numbers that a trial's call is handed, in host memory.
// Owns: TrialOperand. Never: owns the numbers. Threads: a value.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/call/role.h"
#include "runtime/call/strides.h"

namespace gqa {

struct TrialOperand {
  Role role;
  const void* data;
  std::size_t bytes;
  Strides strides;
};
using TrialOperands = std::vector<TrialOperand>;

// Adds the vector's numbers, unless it is empty.
template <typename Number>
void add_operand(Role role, const std::vector<Number>& numbers, const Strides& strides, TrialOperands* operands) {
  if (!numbers.empty()) operands->push_back({role, numbers.data(), numbers.size() * sizeof(Number), strides});
}

}  // namespace gqa

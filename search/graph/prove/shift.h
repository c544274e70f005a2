// shift.h: what becomes of a value when all exponents are moved by a number of each row.
// Owns: Shift, and how it passes through an operator. exp(a - m) is exp(a) times exp(-m): of degree -1; what is linear
// in it too, and a quotient of two such is free of m. With it the rewriting knows when a maximum may be subtracted, and
// the enumeration when a running maximum may stand for the maximum and what its sums must be rescaled by.
// Never: says along which dimensions m is constant; shapes and the proof do.
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "search/graph/ir/op.h"

namespace gqa {

struct Shift {
  int maximum = -1;  // which one; -1: free of any
  int degree = 0;    // the value is v exp(degree * m)
  int added = 0;     // or v + added * m

  bool free() const { return maximum < 0; }
  friend bool operator==(const Shift&, const Shift&) = default;
};

// Nothing: the result depends on the maximum in no such way.
std::optional<Shift> shift_of(Op op, const std::vector<Shift>& operands);

}  // namespace gqa

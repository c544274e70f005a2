// value_range.h: between which numbers the values of a graph lie, where evaluating it operator by operator is finite.
// Owns: ValueRange; value_ranges(), interval arithmetic with what bounds a value whatever it is made of: exponentials
// below their maximum, a quotient by the sum or by the root mean square, a float16 value that the user's graph has too;
// may_overflow(), whether what rules of algebra brought in leaves float32.
// Never: knows the numbers of a call. Inputs of float32 and bfloat16 are taken to be at most 2^16, float16's largest.
// Threads: pure functions.
#pragma once

#include <limits>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

// The range of the numbers that no mask has hidden.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  double largest() const;  // absolute value
  bool in_unit() const { return low >= 0 && high <= 1; }
};

std::vector<ValueRange> value_ranges(const KernelGraph& graph);  // one a tensor; a custom operator's: anything

// The maximum, where the tensor is x - max(x); null: it is none.
const KernelNode* maximum_taken_off(const KernelGraph& graph, int tensor);

// A program of such a graph could be infinite where the user's is not: (E / S) V is finite as long as V is, E V is not.
bool may_overflow(const KernelGraph& graph);

}  // namespace gqa

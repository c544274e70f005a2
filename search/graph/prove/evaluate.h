// evaluate.h: the value of a graph, in double: the reference that everything later is judged against; and as a naive
// run in the tensors' own types gives it.
// Owns: evaluate(), at kernel level and, for custom operators, block by block and step by step as the µGraph says.
// Never: is fast for its own sake, or knows a device.
// Threads: pure functions.
#pragma once

#include <vector>

#include "search/graph/ir/kernel_graph.h"
#include "search/graph/prove/operators.h"
#include "search/graph/workers.h"
#include "search/status.h"

namespace gqa {

enum class Rounding : std::uint8_t {
  kNone,     // double throughout: the reference
  kResults,  // float32, each operator's result rounded to its tensor's type: what a naive run in that type gives
};

struct EvaluateOptions {
  Rounding rounding = Rounding::kNone;
  // Where asked for: how many elements of all operators' results are infinite or NaN (what overflows on the way need
  // not show at the end), or larger than the 3/4th power of their type's largest where near_overflow asks for that.
  std::int64_t* nonfinite = nullptr;
  bool near_overflow = false;
  double disturbance = 0;          // of each operator's results, relative to them, up or down as chance has it
  std::vector<Place> places = {};  // of sample.h; empty: of the whole
  Workers workers = {};
};

// Tensors are dense and row-major, in the order of graph.inputs() and graph.outputs(). Not-a-number and infinities
// are as IEEE 754 has them, but for sub_max and normalize (op.h), and so for softmax. Large inputs
// are better moved here than copied. kCancelled: the workers were told to stop.
Status evaluate(const KernelGraph& graph, std::vector<std::vector<double>> inputs,
                std::vector<std::vector<double>>* outputs, const EvaluateOptions& options);
Status evaluate(const KernelGraph& graph, std::vector<std::vector<float>> inputs,
                std::vector<std::vector<double>>* outputs, const EvaluateOptions& options);
Status evaluate(const KernelGraph& graph, std::vector<std::vector<double>> inputs,
                std::vector<std::vector<double>>* outputs, Rounding rounding = Rounding::kNone);

// The nearest value of a type, ties to even.
double round_to(double value, ElementType type);
// The largest finite one.
double largest_of(ElementType type);

}  // namespace gqa

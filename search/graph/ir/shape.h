// shape.h: what shape an operator gives, at kernel level and at block level alike.
// Owns: the shape rule of each operator, and the refusal of operands that do not fit (sizes, or tiles cut differently).
// Never: looks at values.
// Threads: pure functions.
#pragma once

#include <vector>

#include "search/graph/ir/axis.h"
#include "search/graph/ir/op.h"

namespace gqa {

// Checks number and shapes of the operands and gives the result's axes. Dimensions counted from the end become counted
// from the start in *attributes. Elementwise operands broadcast: ranks align at the right, dimensions of size 1
// stretch; so do matmul's leading dimensions. Not for load and custom, whose shape is not their operands'.
Status infer_shape(Op op, const std::vector<Axes>& operands, Attributes* attributes, Axes* result);

}  // namespace gqa

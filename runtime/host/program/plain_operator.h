// plain_operator.h: an operator on whole tensors as blocks for the host's threads.
// Owns: PlainOperator: the block graph of one operator of a kernel graph, cut so that its tiles stay in a core's cache
// and all threads have work; the operands as that graph reads them (a broadcast is a stride of 0).
// Never: fuses operators or runs one.
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

struct PlainOperator {
  BlockGraph block;
  std::vector<TensorSpec> operands;  // dims and strides may differ from the node's: views are made here
  std::optional<float> constant;     // instead of operands: one element, stretched
};

// `node` is not custom.
Status plain_operator(const KernelGraph& graph, const KernelNode& node, int threads, PlainOperator* made);

}  // namespace gqa

// graph_dot.h: a kernel graph as a drawing, for Graphviz.
// Owns: the DOT text: tensors are boxes, operators ovals, a custom operator a cluster that holds its block graph, with
// the loop's part a cluster in it.
// Never: runs Graphviz.
// Threads: a pure function.
#pragma once

#include <string>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

std::string to_dot(const KernelGraph& graph);

}  // namespace gqa

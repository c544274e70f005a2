// partition.h: ways to divide a graph's operators into kernels.
// Owns: units, the operators that always stay together; groups of units that could be one kernel; a group as a graph of
// its own.
// Never: says whether a group fits a kernel.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

using Group = std::uint64_t;  // a set of units, one a bit

struct Units {
  std::vector<std::vector<int>> nodes;  // of each unit, in order; units in an order in which they can run
  std::vector<Group> before;            // units that a unit waits for, directly or not
  std::vector<Group> beside;            // units that share a tensor with a unit
};

// A cheap operator stays with its only reader or with the product or sum that it follows, at most 64 units in all; more
// are joined from the end.
Units units_of(const KernelGraph& graph);

// Connected and convex: nothing outside waits for a group and is waited for by it. Single units first; at most `most`.
std::vector<Group> groups_of(const Units& units, std::size_t most);

// The group's operators with what they read as inputs, in *inputs the graph's tensors for them, in *outputs those that
// others read or that are outputs.
KernelGraph extract(const KernelGraph& graph, const std::vector<int>& nodes, std::vector<int>* inputs,
                    std::vector<int>* outputs);
std::vector<int> nodes_of(const Units& units, Group group);

}  // namespace gqa

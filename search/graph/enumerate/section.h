// section.h: a part of a kernel graph that may become one kernel, and the dimensions that its tensors share.
// Owns: Section: the part as a graph of its own; Dimension: the same index wherever it runs, as matmul's rows run
// through its first operand and its result; which of them blocks may divide among themselves and a loop may walk along.
// Never: chooses a tile.
// Threads: a value.
#pragma once

#include <cstdint>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

enum class DimensionRole : std::uint8_t { kBatch, kRow, kColumn };  // of the last product, else of the first output

struct Dimension {
  std::int64_t size = 1;
  DimensionRole role = DimensionRole::kBatch;
  bool reduced = false;    // summed over, or the maximum taken
  bool twice = false;      // two dimensions of one tensor: no map can cut it
  bool in_outputs = true;  // of every output
  bool shared = false;     // a batch of a product over which one operand is stretched: packing it reuses that operand

  bool may_grid() const { return in_outputs && !reduced && !twice; }
  bool may_loop() const { return reduced && !twice; }
};

inline constexpr int kNoDimension = -1;  // of size 1
using DimensionIds = std::vector<int>;   // one a dimension of a tensor

struct Section {
  KernelGraph graph;  // its outputs are marked
  std::vector<Dimension> dimensions;
  std::vector<DimensionIds> results;             // of the node's result, one a node
  std::vector<std::vector<DimensionIds>> reads;  // of each operand of each node, as that node reads it

  const KernelNode& node(std::size_t at) const { return graph.nodes()[at]; }
  bool is_input(int tensor) const { return graph.tensor(tensor).node < 0; }
  const KernelNode& maker(int tensor) const { return node(static_cast<std::size_t>(graph.tensor(tensor).node)); }
  int maximum_behind(int tensor) const;  // the node, a maximum, whose result this is, through views; -1: none
  bool reduces(std::size_t at, int dimension) const;  // the node sums over it or takes the maximum
};

// Whether an operator can stand in a block graph and its dimensions are followed here.
bool can_fuse(Op op);

Section section_of(KernelGraph graph);  // every node can_fuse

}  // namespace gqa

// joined_dims.h: which dimensions of a graph's tensors are one and the same index.
// Owns: DimJoiner, classes of dimensions; join_dims(), which joins those that an operator lines up, as matmul's rows
// run through its first operand and its result.
// Never: looks into a block graph; joins dimensions of different sizes.
// Threads: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

using DimSlots = std::vector<int>;  // one a dimension of a tensor

class DimJoiner {
 public:
  DimSlots slots(const Dims& dims);  // new ones, each a class of its own
  int root(int slot) const;
  std::int64_t size(int slot) const { return sizes_[static_cast<std::size_t>(slot)]; }
  int count() const { return static_cast<int>(sizes_.size()); }
  void join(int a, int b);
  // Right-aligned, as operands broadcast; dimensions after `from_end` only.
  void join_aligned(const DimSlots& a, const DimSlots& b, std::size_t from_end = 0);

 private:
  std::vector<int> parent_;
  std::vector<std::int64_t> sizes_;
};

// in, out: the slots of a node's operands and result.
void join_dims(const KernelNode& node, const std::vector<DimSlots>& in, const DimSlots& out, DimJoiner* joiner);

}  // namespace gqa

// joined_dims.cc: see joined_dims.h.
#include "search/graph/ir/joined_dims.h"

#include <algorithm>

namespace gqa {
namespace {

void join_matmul(const KernelNode& node, const std::vector<DimSlots>& in, const DimSlots& out, DimJoiner* joiner) {
  const auto at = [](const DimSlots& slots, std::size_t back) { return slots[slots.size() - 1 - back]; };
  const bool ta = node.attributes.transpose_a, tb = node.attributes.transpose_b;
  joiner->join_aligned(in[0], out, 2);
  joiner->join_aligned(in[1], out, 2);
  joiner->join(at(in[0], ta ? 0 : 1), at(out, 1));
  joiner->join(at(in[1], tb ? 1 : 0), at(out, 0));
  joiner->join(at(in[0], ta ? 1 : 0), at(in[1], tb ? 0 : 1));
}

void join_view(const KernelNode& node, const DimSlots& in, const DimSlots& out, DimJoiner* joiner) {
  const auto dim = static_cast<std::size_t>(std::max<std::int64_t>(0, node.attributes.dim));
  for (std::size_t at = 0; at < std::min(in.size(), out.size()); ++at) {
    if (node.op == Op::kTranspose) {
      joiner->join(in[static_cast<std::size_t>(node.attributes.dims[at])], out[at]);
    } else {
      const std::size_t after = at >= dim ? 1 : 0;
      joiner->join(in[at + (node.op == Op::kSqueeze ? after : 0)], out[at + (node.op == Op::kUnsqueeze ? after : 0)]);
    }
  }
}

}  // namespace

DimSlots DimJoiner::slots(const Dims& dims) {
  DimSlots made;
  for (const std::int64_t size : dims) {
    made.push_back(count());
    parent_.push_back(made.back());
    sizes_.push_back(size);
  }
  return made;
}

int DimJoiner::root(int slot) const {
  while (parent_[static_cast<std::size_t>(slot)] != slot) slot = parent_[static_cast<std::size_t>(slot)];
  return slot;
}

void DimJoiner::join(int a, int b) {
  if (size(a) == size(b)) parent_[static_cast<std::size_t>(root(a))] = root(b);
}

void DimJoiner::join_aligned(const DimSlots& a, const DimSlots& b, std::size_t from_end) {
  for (std::size_t back = from_end; back < std::min(a.size(), b.size()); ++back)
    join(a[a.size() - 1 - back], b[b.size() - 1 - back]);
}

void join_dims(const KernelNode& node, const std::vector<DimSlots>& in, const DimSlots& out, DimJoiner* joiner) {
  const OpClass kind = info(node.op).kind;
  if (kind == OpClass::kContraction) return join_matmul(node, in, out, joiner);
  if (kind == OpClass::kView && node.op != Op::kBroadcast) return join_view(node, in[0], out, joiner);
  for (const DimSlots& operand : in) joiner->join_aligned(operand, out);  // a reduced dimension has another size
}

}  // namespace gqa

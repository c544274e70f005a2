// canonical.h: a graph's identity: what it computes and how, whatever its tensors are called and in whatever order it
// was built.
// Owns: Digest, canonical(): the digest, and the order of inputs and outputs that all equal graphs share, so that what
// is kept for one is bound to the tensors of another.
// Never: sees through algebra: a b + c and c + b a are one graph, (a + b) c and a c + b c two.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

struct Digest {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

std::string to_text(const Digest& digest);  // 32 hexadecimal digits

struct Canonical {
  Digest digest;
  std::vector<int> inputs;   // the k-th input of the canonical order is graph.inputs()[inputs[k]]
  std::vector<int> outputs;  // likewise, of graph.outputs()
};

// Shapes, types, strides, operators, attributes, maps, thread plans and edges count; names, order of construction and
// the order of a commutative operator's operands do not. Two graphs share a digest only if they are equal in this sense
// (128 bits), and share it if they are, but for inputs that no use tells apart and that are not symmetric either.
Canonical canonical(const KernelGraph& graph);

// The same graph with inputs and outputs in other orders: its k-th input is graph.inputs()[inputs[k]], and likewise its
// outputs, all marked.
Status reorder(const KernelGraph& graph, const std::vector<int>& inputs, const std::vector<int>& outputs,
               KernelGraph* ordered);
std::vector<int> inverse(const std::vector<int>& order);

std::uint64_t hash(const KernelGraph& graph);                 // of the digest
bool same_graph(const KernelGraph& a, const KernelGraph& b);  // equal digests

}  // namespace gqa

// canonical.cc: see canonical.h. A value's digest is made of its operator and its operands' digests; an input's, of its
// shape and of what it does to the graph's digest when it is told apart from the others.
#include "search/graph/ir/canonical.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace gqa {
namespace {

class Hasher {
 public:
  Hasher& add(std::uint64_t word) {
    words_.push_back(word);
    return *this;
  }
  Hasher& add(const Digest& digest) { return add(digest.high).add(digest.low); }
  Hasher& add(const std::string& text) { return add(XXH3_64bits(text.data(), text.size())).add(text.size()); }
  Hasher& add(const Dims& dims) {
    add(dims.size());
    for (const std::int64_t size : dims) add(static_cast<std::uint64_t>(size));
    return *this;
  }
  Hasher& add(const std::vector<Digest>& digests) {
    add(digests.size());
    for (const Digest& digest : digests) add(digest);
    return *this;
  }
  Digest done() const {
    const XXH128_hash_t found = XXH3_128bits(words_.data(), words_.size() * sizeof(words_[0]));
    return {found.high64, found.low64};
  }

 private:
  std::vector<std::uint64_t> words_;
};

std::vector<Digest> sorted(std::vector<Digest> digests) {
  std::sort(digests.begin(), digests.end());
  return digests;
}

Digest digest_of(const TensorSpec& spec) {
  return Hasher().add(spec.dims).add(static_cast<std::uint64_t>(spec.type)).add(spec.strides).done();
}

Digest digest_of(const TileMap& map) {
  Hasher hasher;
  for (const Slice& slice : map.grid) hasher.add(Dims{slice.dim, slice.tile});
  return hasher.add(Dims{map.loop.dim, map.loop.tile}).done();
}

Digest operation(Op op, const Attributes& attributes, std::vector<Digest> operands) {
  if (info(op).commutes) operands = sorted(std::move(operands));
  return Hasher().add(std::string(name(op)) + to_text(attributes)).add(operands).done();
}

// Digests of the results of a custom operator.
std::vector<Digest> block_digests(const BlockGraph& block, const std::vector<Digest>& operands) {
  std::vector<Digest> nodes, stores;
  for (const BlockNode& node : block.nodes) {
    std::vector<Digest> inputs;
    for (const int input : node.inputs) inputs.push_back(nodes[static_cast<std::size_t>(input)]);
    if (node.op == Op::kLoad) inputs = {operands[static_cast<std::size_t>(node.operand)], digest_of(node.map)};
    nodes.push_back(Hasher()
                        .add(static_cast<std::uint64_t>(node.phase))
                        .add(operation(node.op, node.attributes, std::move(inputs)))
                        .done());
  }
  const Digest whole =
      Hasher().add(block.grid).add(Dims{block.steps}).add(to_text(block.threads)).add(sorted(nodes)).done();
  for (const BlockStore& store : block.stores) {
    stores.push_back(Hasher()
                         .add(whole)
                         .add(nodes[static_cast<std::size_t>(store.value)])
                         .add(digest_of(store.map))
                         .add(digest_of(store.result))
                         .done());
  }
  return stores;
}

struct Digests {
  Digest graph;
  std::vector<Digest> outputs;
};

Digests digests_of(const KernelGraph& graph, const std::vector<Digest>& inputs) {
  std::vector<Digest> tensors(graph.tensors().size()), all = inputs;
  for (std::size_t at = 0; at < inputs.size(); ++at) tensors[static_cast<std::size_t>(graph.inputs()[at])] = inputs[at];
  for (const KernelNode& node : graph.nodes()) {
    std::vector<Digest> operands;
    for (const int input : node.inputs) operands.push_back(tensors[static_cast<std::size_t>(input)]);
    const std::vector<Digest> results =
        node.block ? block_digests(*node.block, operands) : std::vector{operation(node.op, node.attributes, operands)};
    for (std::size_t at = 0; at < results.size(); ++at) {
      tensors[static_cast<std::size_t>(node.outputs[at])] = results[at];
      all.push_back(results[at]);
    }
  }
  Digests found;
  for (const int output : graph.outputs()) found.outputs.push_back(tensors[static_cast<std::size_t>(output)]);
  found.graph = Hasher().add(sorted(std::move(all))).add(sorted(found.outputs)).done();
  return found;
}

Digest marked(const Digest& color) { return Hasher().add("marked").add(color).done(); }

std::size_t distinct(const std::vector<Digest>& colors) {
  return std::set<Digest>(colors.begin(), colors.end()).size();
}

// Tells inputs apart by what marking each of them does to the graph, until that tells no more.
void refine(const KernelGraph& graph, std::vector<Digest>* colors) {
  for (std::size_t before = 0; before != distinct(*colors) && distinct(*colors) < colors->size();) {
    before = distinct(*colors);
    std::vector<Digest> finer;
    for (std::size_t at = 0; at < colors->size(); ++at) {
      std::vector<Digest> trial = *colors;
      trial[at] = marked(trial[at]);
      finer.push_back(Hasher().add((*colors)[at]).add(digests_of(graph, trial).graph).done());
    }
    *colors = std::move(finer);
  }
}

// One of the inputs that are still alike, of the smallest color: it does not matter which where they are symmetric.
std::size_t first_alike(const std::vector<Digest>& colors) {
  std::vector<std::size_t> order(colors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return colors[a] < colors[b]; });
  for (std::size_t at = 0; at + 1 < order.size(); ++at) {
    if (colors[order[at]] == colors[order[at + 1]]) return order[at];
  }
  return colors.size();
}

std::vector<int> order_of(const std::vector<Digest>& digests) {
  std::vector<int> order(digests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return digests[static_cast<std::size_t>(a)] < digests[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace

std::string to_text(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t word : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  }
  return text;
}

Canonical canonical(const KernelGraph& graph) {
  std::vector<Digest> colors;
  for (const int input : graph.inputs()) colors.push_back(digest_of(graph.spec(input)));
  refine(graph, &colors);
  for (std::size_t at = first_alike(colors); at < colors.size(); at = first_alike(colors)) {
    colors[at] = marked(colors[at]);
    refine(graph, &colors);
  }
  const Digests digests = digests_of(graph, colors);
  return {digests.graph, order_of(colors), order_of(digests.outputs)};
}

std::uint64_t hash(const KernelGraph& graph) { return canonical(graph).digest.low; }

bool same_graph(const KernelGraph& a, const KernelGraph& b) { return canonical(a).digest == canonical(b).digest; }

}  // namespace gqa

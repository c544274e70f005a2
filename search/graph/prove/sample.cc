// sample.cc: see sample.h. First which dimensions are one (SampledDims), then how many of each (thin_out), then the
// graph.
#include "search/graph/prove/sample.h"

#include <algorithm>
#include <map>

#include "search/graph/ir/joined_dims.h"

namespace gqa {
namespace {

constexpr double kElementWork = 2, kFunctionWork = 16;  // of an element moved, of an exponential; in multiply-adds
constexpr std::int64_t kBatchWeight = 16;               // batches are thinned out to so many times fewer than rows
constexpr std::int64_t kRowBlock = 64, kRowTile = 16;   // rows that kernels take at once

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
  return x ^ (x >> 29);
}

// A number below `range` that depends on `at` and on nothing else.
std::int64_t jitter(std::int64_t at, std::int64_t range) {
  return static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(at) + 1) % static_cast<std::uint64_t>(range));
}

// ---- dimensions

class SampledDims {
 public:
  explicit SampledDims(const KernelGraph& graph) : graph_(graph) {
    for (const KernelTensor& tensor : graph.tensors()) slots_.push_back(joiner_.slots(tensor.spec.dims));
    for (const KernelNode& node : graph.nodes()) {
      if (!node.block) join_dims(node, operands(node), of(node.outputs[0]), &joiner_);
    }
    for (int slot = 0; slot < joiner_.count(); ++slot) counts_[joiner_.root(slot)] = joiner_.size(slot);
    for (const KernelNode& node : graph.nodes()) pin(node);
    for (const KernelTensor& tensor : graph.tensors()) mark_batches(tensor);
  }

  // Classes that may be sampled, those of size 1 left out.
  std::vector<int> free() const {
    std::vector<int> found;
    for (const auto& [root, count] : counts_) {
      if (count > 1 && !pinned_.count(root)) found.push_back(root);
    }
    return found;
  }
  std::int64_t count(int root) const { return counts_.at(root); }
  void set_count(int root, std::int64_t count) { counts_[root] = count; }
  std::int64_t weight(int root) const { return count(root) * (batches_.at(root) ? kBatchWeight : 1); }
  std::int64_t full(int root) const { return joiner_.size(root); }

  Dims sizes(int tensor) const {
    Dims dims;
    for (const int slot : of(tensor)) dims.push_back(count(joiner_.root(slot)));
    return dims;
  }
  std::vector<Indices> indices(int tensor) const {
    std::vector<Indices> found;
    for (const int slot : of(tensor)) {
      const int root = joiner_.root(slot);
      found.push_back(count(root) == full(root) ? Indices() : sample_indices(full(root), count(root)));
    }
    return found;
  }

  double work() const {
    double work = 0;
    for (const int input : graph_.inputs()) work += kElementWork * static_cast<double>(elements(sizes(input)));
    for (const KernelNode& node : graph_.nodes()) work += work_of(node);
    return work;
  }

 private:
  const DimSlots& of(int tensor) const { return slots_[static_cast<std::size_t>(tensor)]; }

  std::vector<DimSlots> operands(const KernelNode& node) const {
    std::vector<DimSlots> found;
    for (const int input : node.inputs) found.push_back(of(input));
    return found;
  }

  void pin(int slot) { pinned_[joiner_.root(slot)] = true; }

  // What an operator folds must be there whole; so must all that a block graph sees.
  void pin(const KernelNode& node) {
    if (node.block) {
      for (const std::vector<int>* tensors : {&node.inputs, &node.outputs}) {
        for (const int tensor : *tensors)
          for (const int slot : of(tensor)) pin(slot);
      }
      return;
    }
    if (node.inputs.empty()) return;
    const DimSlots& in = of(node.inputs[0]);
    if (node.op == Op::kMatmul) pin(in[in.size() - (node.attributes.transpose_a ? 2 : 1)]);
    if (node.op == Op::kRmsNorm) pin(in.back());
    if (node.op == Op::kSoftmax || info(node.op).kind == OpClass::kReduction)
      pin(in[static_cast<std::size_t>(node.attributes.dim)]);
  }

  // A batch is never one of a tensor's last two dimensions.
  void mark_batches(const KernelTensor& tensor) {
    const DimSlots& slots = slots_[static_cast<std::size_t>(&tensor - graph_.tensors().data())];
    for (std::size_t at = 0; at < slots.size(); ++at) {
      bool& batch = batches_.try_emplace(joiner_.root(slots[at]), true).first->second;
      batch = batch && at + 2 < slots.size();
    }
  }

  double work_of(const KernelNode& node) const {
    double work = 0;
    for (const int output : node.outputs) work += static_cast<double>(elements(sizes(output)));
    if (node.op == Op::kMatmul) {
      const Dims a = sizes(node.inputs[0]);
      return work * static_cast<double>(a[a.size() - (node.attributes.transpose_a ? 2 : 1)]);
    }
    for (const int input : node.inputs) work = std::max(work, static_cast<double>(elements(sizes(input))));
    const OpClass kind = info(node.op).kind;
    const bool function = kind == OpClass::kRow || (kind == OpClass::kElementwise && node.inputs.size() == 1);
    return work * (function ? kFunctionWork : kElementWork);
  }

  const KernelGraph& graph_;
  DimJoiner joiner_;
  std::vector<DimSlots> slots_;         // of each tensor
  std::map<int, std::int64_t> counts_;  // of each class
  std::map<int, bool> pinned_, batches_;
};

// ---- how many

// Halves, again and again, the class whose halving saves most; of those alike, the one with the most left.
void thin_out(double most, SampledDims* dimensions) {
  for (double work = dimensions->work(); work > most;) {
    int best = -1;
    double least = work;
    for (const int root : dimensions->free()) {
      const std::int64_t count = dimensions->count(root);
      if (count <= kFewestSampled) continue;
      dimensions->set_count(root, std::max(kFewestSampled, count / 2));
      const double left = dimensions->work();
      dimensions->set_count(root, count);
      const bool alike = best >= 0 && left < 1.1 * least && least < 1.1 * left;
      if (alike ? dimensions->weight(root) <= dimensions->weight(best) : left >= least) continue;
      best = root;
      least = left;
    }
    if (best < 0) return;
    dimensions->set_count(best, std::max(kFewestSampled, dimensions->count(best) / 2));
    work = dimensions->work();
  }
}

// ---- the graph

Attributes sized(const KernelNode& node, const Dims& result) {
  Attributes attributes = node.attributes;
  if (node.op == Op::kBroadcast || node.op == Op::kConstant) attributes.dims = result;
  return attributes;
}

// Numbers of tensors stay as they are.
Status rebuild(const KernelGraph& graph, const SampledDims& dimensions, KernelGraph* made) {
  int written = -1;
  for (std::size_t at = 0; at < graph.tensors().size(); ++at) {
    const KernelTensor& tensor = graph.tensors()[at];
    const Dims dims = dimensions.sizes(static_cast<int>(at));
    Status status;
    int id = -1;
    if (tensor.node < 0) {
      status = made->add_input({dims, tensor.spec.type}, &id, tensor.name);
    } else if (tensor.node > written) {
      written = tensor.node;
      const KernelNode& node = graph.nodes()[static_cast<std::size_t>(written)];
      std::vector<int> results;
      status = node.block ? made->add_custom(node.inputs, *node.block, &results)
                          : made->add(node.op, node.inputs, sized(node, dims), &id, tensor.name);
    }
    if (!status.ok()) return status;
  }
  for (const int output : graph.marked_outputs()) {
    if (Status status = made->mark_output(output); !status.ok()) return status;
  }
  return {};
}

Place place_in(const KernelGraph& graph, const SampledDims& dimensions, const KernelNode& node) {
  Place place;
  if (node.op != Op::kMask) return place;
  const Dims& dims = graph.spec(node.outputs[0]).dims;
  const std::vector<Indices> indices = dimensions.indices(node.outputs[0]);
  place.rows = dims[dims.size() - 2];
  place.columns = dims.back();
  place.row_at = indices[indices.size() - 2];
  place.column_at = indices.back();
  return place;
}

}  // namespace

Indices sample_indices(std::int64_t size, std::int64_t count) {
  count = std::min(size, count);
  std::vector<bool> taken(static_cast<std::size_t>(size));
  std::int64_t left = count;
  const auto take = [&](std::int64_t at) {
    if (at >= size || taken[static_cast<std::size_t>(at)]) return false;
    --left;
    taken[static_cast<std::size_t>(at)] = true;
    return true;
  };
  Indices wanted = {0, size - 1};
  for (std::int64_t tile = 0; tile < kRowBlock; tile += kRowTile) {
    wanted.push_back(tile + jitter(tile, kRowTile));
    wanted.push_back((size - 1) / kRowBlock * kRowBlock + tile + jitter(tile + 1, kRowTile));
  }
  wanted.insert(wanted.end(), {kRowBlock - 1, kRowBlock});
  for (const std::int64_t at : wanted) {
    if (left > 0 && (left > count / 2 || count - left < 2)) take(at);
  }
  const std::int64_t rest = left;
  for (std::int64_t part = 0; part < rest; ++part) {
    const std::int64_t begin = part * size / rest, end = (part + 1) * size / rest;
    for (std::int64_t at = begin + jitter(part, end - begin); !take(at); at = (at + 1) % size) {
    }
  }
  Indices found;
  for (std::int64_t at = 0; at < size; ++at) {
    if (taken[static_cast<std::size_t>(at)]) found.push_back(at);
  }
  return found;
}

SampledGraph sample(const KernelGraph& graph, double most) {
  const SampledDims all(graph);
  SampledDims few = all;
  thin_out(most, &few);
  SampledGraph made;
  for (const int root : few.free()) made.whole = made.whole && few.count(root) == few.full(root);
  made.whole = made.whole || !rebuild(graph, few, &made.graph).ok();
  if (made.whole) made.graph = graph;
  const SampledDims& chosen = made.whole ? all : few;
  for (const KernelNode& node : graph.nodes()) made.places.push_back(place_in(graph, chosen, node));
  for (const int input : graph.inputs()) made.inputs.push_back(chosen.indices(input));
  for (const int output : graph.outputs()) made.outputs.push_back(chosen.indices(output));
  return made;
}

}  // namespace gqa

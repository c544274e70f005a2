// hiding.cc: see hiding.h: an input is followed through all that reads it.
#include "search/graph/prove/hiding.h"

#include <algorithm>

#include "search/graph/ir/graph_editor.h"

namespace gqa {
namespace {

// Which dimension of the input each dimension of a tensor is; -1: none, or one of size 1.
using FromInput = std::vector<std::int64_t>;

// A tensor on the way from the input: where the input hides, it is -inf (0 for a factor).
struct Reached {
  int tensor = -1;
  FromInput dims;
  bool subtracted = false;
  bool factor = false;
  bool maximum = false;  // it is the row's maximum
};

FromInput aligned(const FromInput& dims, std::size_t rank) {
  FromInput moved(rank, -1);
  for (std::size_t back = 1; back <= std::min(dims.size(), rank); ++back) moved[rank - back] = dims[dims.size() - back];
  return moved;
}

FromInput viewed(const KernelNode& node, FromInput dims, std::size_t rank) {
  const auto dim = static_cast<std::ptrdiff_t>(node.attributes.dim);
  if (node.op == Op::kSqueeze) dims.erase(dims.begin() + dim);
  if (node.op == Op::kUnsqueeze) dims.insert(dims.begin() + dim, -1);
  if (node.op != Op::kTranspose) return aligned(dims, rank);
  FromInput moved;
  for (const std::int64_t from : node.attributes.dims) moved.push_back(dims[static_cast<std::size_t>(from)]);
  return moved;
}

class Follower {
 public:
  Follower(const KernelGraph& graph, std::size_t input) : graph_(graph), readers_(readers(graph)) {
    found_.input = input;
  }

  bool run(Hiding* found) {
    const int tensor = graph_.inputs()[found_.input];
    Reached start = {tensor, {}};
    const Dims& dims = graph_.spec(tensor).dims;
    for (std::size_t at = 0; at < dims.size(); ++at)
      start.dims.push_back(dims[at] == 1 ? -1 : static_cast<std::int64_t>(at));
    if (!follow(start) || !ends_ || (added_ && subtracted_)) return false;
    if (subtracted_) found_.by = HidesBy::kHighest;
    *found = found_;
    return true;
  }

 private:
  std::size_t rank(int tensor) const { return graph_.spec(tensor).dims.size(); }

  bool follow(const Reached& at) {
    const std::vector<int>& by = readers_[static_cast<std::size_t>(at.tensor)];
    if (by.empty()) return at.maximum;  // a result that is no softmax's
    return std::all_of(by.begin(), by.end(), [&](int reader) {
      const KernelNode& node = graph_.nodes()[static_cast<std::size_t>(reader)];
      return !node.block && through(node, at);
    });
  }

  bool through(const KernelNode& node, const Reached& at) {
    Reached made = at;
    made.tensor = node.outputs[0];
    const bool first = node.inputs[0] == at.tensor, both = node.inputs.size() > 1 && node.inputs[0] == node.inputs[1];
    if (both) return false;
    if (info(node.op).kind == OpClass::kView) {
      made.dims = viewed(node, at.dims, rank(made.tensor));
      return follow(made);
    }
    if (info(node.op).kind == OpClass::kElementwise || node.op == Op::kMask)
      made.dims = aligned(at.dims, rank(made.tensor));
    switch (node.op) {
      case Op::kSub:
      case Op::kSubMax:
        if (at.maximum) return !first;  // what it is taken from is followed on its own
        made.subtracted = at.subtracted != !first;
        return follow(made);
      case Op::kScale:
        made.subtracted = at.subtracted != (node.attributes.factor < 0);
        return !at.maximum && node.attributes.factor != 0 && follow(made);
      case Op::kAdd:
      case Op::kAddConstant:
      case Op::kMask:
        return !at.maximum && follow(made);
      case Op::kMul:
        return multiplied(node, at, made);
      case Op::kMax:
        made.maximum = true;
        return end(at, node.attributes.dim) && follow(made);
      case Op::kSoftmax:
        return end(at, node.attributes.dim);
      case Op::kExp:
      case Op::kExp2:
        return end(at, summed_dim(node.outputs[0]));
      default:
        return false;
    }
  }

  // A factor of scores is followed on; of weights, it has arrived.
  bool multiplied(const KernelNode& node, const Reached& at, Reached made) {
    if (at.maximum || !untouched(at.tensor)) return false;
    made.factor = true;
    const int other = node.inputs[node.inputs[0] == at.tensor ? 1 : 0];
    return of_exponential(other) ? end(made, summed_dim(made.tensor)) : follow(made);
  }

  // The input itself, through views.
  bool untouched(int tensor) const {
    const int maker = graph_.tensor(tensor).node;
    if (maker < 0) return true;
    const KernelNode& node = graph_.nodes()[static_cast<std::size_t>(maker)];
    return info(node.op).kind == OpClass::kView && untouched(node.inputs[0]);
  }

  bool of_exponential(int tensor) const {
    const int maker = graph_.tensor(tensor).node;
    if (maker < 0) return false;
    const KernelNode& node = graph_.nodes()[static_cast<std::size_t>(maker)];
    if (node.op == Op::kExp || node.op == Op::kExp2 || node.op == Op::kSoftmax) return true;
    return node.op == Op::kDiv && of_exponential(node.inputs[0]);
  }

  // Along which dimension it is summed: by a sum, else as a product's left operand.
  std::int64_t summed_dim(int tensor) const {
    for (const int reader : readers_[static_cast<std::size_t>(tensor)]) {
      const KernelNode& node = graph_.nodes()[static_cast<std::size_t>(reader)];
      if (node.op == Op::kSum || node.op == Op::kMean) return node.attributes.dim;
    }
    return static_cast<std::int64_t>(rank(tensor)) - 1;
  }

  bool end(const Reached& at, std::int64_t dim) {
    ends_ = true;
    (at.subtracted ? subtracted_ : added_) = true;
    if (at.factor) found_.by = HidesBy::kZero;
    if (found_.key_dim < 0) found_.key_dim = at.dims[static_cast<std::size_t>(dim)];
    return true;
  }

  const KernelGraph& graph_;
  const std::vector<std::vector<int>> readers_;
  Hiding found_;
  bool ends_ = false, added_ = false, subtracted_ = false;
};

}  // namespace

std::vector<Hiding> find_hidings(const KernelGraph& graph) {
  std::vector<Hiding> found;
  for (std::size_t input = 0; input < graph.inputs().size(); ++input) {
    Hiding hiding;
    if (Follower(graph, input).run(&hiding)) found.push_back(hiding);
  }
  return found;
}

bool hides(HiddenKeys which, std::int64_t key, std::int64_t keys) {
  constexpr std::int64_t kParts = 8;
  const std::int64_t part = key * kParts / keys;
  switch (which) {
    case HiddenKeys::kAllButLast:
      return key < keys - 1;
    case HiddenKeys::kScattered:  // the parts 2, 5 and 6 are seen
      return keys >= kParts && part != 2 && part != 5 && part != 6;
    case HiddenKeys::kAllButFirst:
      return key > 0;
    case HiddenKeys::kFirstHalf:
      return key < keys / 2;
    case HiddenKeys::kLastHalf:
      return key >= (keys + 1) / 2;
    case HiddenKeys::kMiddle:
      return key >= keys / 4 && key < keys - (keys + 3) / 4;
    case HiddenKeys::kAlternate:
      return part % 2 == 1;
    case HiddenKeys::kAll:
      break;
  }
  return true;
}

}  // namespace gqa

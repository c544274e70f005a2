// value_range.cc: see value_range.h: an operator's range from its operands', in the graph's order.
#include "search/graph/rewrite/value_range.h"

#include <algorithm>
#include <cmath>

namespace gqa {
namespace {

constexpr double kMostF16 = 65504, kMostInput = 65536;
// The most of a value that algebra brought in: float32's largest, less what the sums of a few more operators may need.
constexpr double kMostRewritten = 0x1p120;

ValueRange at_most(double size) { return {-size, size}; }

double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

ValueRange span(std::initializer_list<double> corners) { return {std::min(corners), std::max(corners)}; }

ValueRange product(const ValueRange& a, const ValueRange& b) {
  return span({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)});
}

ValueRange times(const ValueRange& a, double factor) { return product(a, {factor, factor}); }

// 1 / x; anything where x may be 0.
ValueRange inverse(const ValueRange& x) {
  if (x.low > 0) return {1 / x.high, 1 / x.low};
  return x.high < 0 ? ValueRange{1 / x.high, 1 / x.low} : ValueRange();
}

const KernelNode* maker_of(const KernelGraph& graph, int tensor, Op op) {
  const KernelNode* made = graph.maker(tensor);
  return made && made->op == op ? made : nullptr;
}

// `taken`, where it is the maximum of x.
const KernelNode* maximum_of(const KernelGraph& graph, int x, int taken) {
  const KernelNode* maximum = maker_of(graph, taken, Op::kMax);
  return maximum && maximum->inputs[0] == x ? maximum : nullptr;
}

class Ranges {
 public:
  explicit Ranges(const KernelGraph& graph) : graph_(graph), found_(graph.tensors().size()) {}

  std::vector<ValueRange> run() {
    for (const int input : graph_.inputs())
      at(input) = at_most(graph_.spec(input).type == ElementType::kF16 ? kMostF16 : kMostInput);
    for (const KernelNode& node : graph_.nodes()) {
      if (node.block) continue;
      at(node.outputs[0]) = of(node);
      clip(node.outputs[0]);
    }
    return std::move(found_);
  }

 private:
  ValueRange& at(int tensor) { return found_[static_cast<std::size_t>(tensor)]; }

  const KernelNode* maker(int tensor, Op op) const { return maker_of(graph_, tensor, op); }

  // Operator by operator it is rounded to its type, and is finite there.
  void clip(int tensor) {
    if (graph_.tensor(tensor).origin != ValueOrigin::kGiven || graph_.spec(tensor).type != ElementType::kF16) return;
    at(tensor) = {std::max(at(tensor).low, -kMostF16), std::min(at(tensor).high, kMostF16)};
  }

  std::int64_t folded(const KernelNode& node) const {
    return elements(graph_.spec(node.inputs[0]).dims) / elements(graph_.spec(node.outputs[0]).dims);
  }

  // exp(x - max(x)): one of the elements along dim is 1.
  bool below_maximum(int tensor, std::int64_t dim) const {
    const KernelNode* exponential = maker(tensor, Op::kExp);
    const KernelNode* maximum = exponential ? maximum_taken_off(graph_, exponential->inputs[0]) : nullptr;
    return maximum && maximum->attributes.dim == dim;
  }

  ValueRange difference(const KernelNode& node) {
    const ValueRange &x = at(node.inputs[0]), &y = at(node.inputs[1]);
    return {x.low - y.high, maximum_taken_off(graph_, node.outputs[0]) ? 0 : x.high - y.low};
  }

  bool is_exponential_over_its_largest(const KernelNode& node) const {
    const KernelNode *above = maker(node.inputs[0], Op::kExp), *below = maker(node.inputs[1], Op::kExp);
    return above && below && maximum_of(graph_, above->inputs[0], below->inputs[0]);
  }

  ValueRange sum(const KernelNode& node) {
    const auto count = static_cast<double>(folded(node));
    const ValueRange x = at(node.inputs[0]);
    if (below_maximum(node.inputs[0], node.attributes.dim)) return {1, count};
    return {std::min(x.low, product(x.low, count)), std::max(x.high, product(x.high, count))};
  }

  ValueRange quotient(const KernelNode& node) {
    const KernelNode* total = maker(node.inputs[1], Op::kSum);
    if (total && total->inputs[0] == node.inputs[0] && at(node.inputs[0]).low >= 0) return {0, 1};
    if (is_exponential_over_its_largest(node)) return {0, 1};
    return product(at(node.inputs[0]), inverse(at(node.inputs[1])));
  }

  // x / sqrt(mean(x^2) + epsilon), opened.
  bool is_normed(int x, int by) const {
    const KernelNode* root = maker(by, Op::kRsqrt);
    const KernelNode* shifted = root ? maker(root->inputs[0], Op::kAddConstant) : nullptr;
    const KernelNode* mean = shifted ? maker(shifted->inputs[0], Op::kScale) : nullptr;
    const KernelNode* total = mean ? maker(mean->inputs[0], Op::kSum) : nullptr;
    const KernelNode* squares = total ? maker(total->inputs[0], Op::kSquare) : nullptr;
    return squares && squares->inputs[0] == x && mean->attributes.count == folded(*total);
  }

  ValueRange multiplied(const KernelNode& node) {
    for (const std::size_t x : {0, 1}) {
      if (is_normed(node.inputs[x], node.inputs[1 - x]))
        return at_most(std::sqrt(static_cast<double>(graph_.spec(node.inputs[x]).dims.back())));
    }
    return product(at(node.inputs[0]), at(node.inputs[1]));
  }

  ValueRange matmul(const KernelNode& node) {
    const Dims& dims = graph_.spec(node.inputs[0]).dims;
    const auto inner = static_cast<double>(dims[dims.size() - (node.attributes.transpose_a ? 2 : 1)]);
    const ValueRange one = product(at(node.inputs[0]), at(node.inputs[1]));
    return {std::min(one.low, product(one.low, inner)), std::max(one.high, product(one.high, inner))};
  }

  ValueRange normed(const KernelNode& node) {
    const ValueRange x = at_most(std::sqrt(static_cast<double>(graph_.spec(node.inputs[0]).dims.back())));
    return node.inputs.size() == 1 ? x : product(x, at(node.inputs[1]));
  }

  ValueRange of(const KernelNode& node) {
    const Attributes& attributes = node.attributes;
    const ValueRange x = node.inputs.empty() ? ValueRange() : at(node.inputs[0]);
    const ValueRange y = node.inputs.size() < 2 ? ValueRange() : at(node.inputs[1]);
    switch (node.op) {
      case Op::kConstant:
        return {attributes.factor, attributes.factor};
      case Op::kMatmul:
        return matmul(node);
      case Op::kAdd:
        return {x.low + y.low, x.high + y.high};
      case Op::kSub:
      case Op::kSubMax:
        return difference(node);
      case Op::kMul:
        return multiplied(node);
      case Op::kDiv:
      case Op::kNormalize:
        return quotient(node);
      case Op::kExp:
        return {0, std::exp(x.high)};
      case Op::kExp2:
        return {0, std::exp2(x.high)};
      case Op::kSqrt:
        return {0, std::sqrt(std::max(x.high, 0.0))};
      case Op::kRsqrt:
        return {0, x.low > 0 ? 1 / std::sqrt(x.low) : kInfinity};
      case Op::kSquare:
        return {0, product(x.largest(), x.largest())};
      case Op::kReciprocal:
        return inverse(x);
      case Op::kRelu:
        return {std::max(x.low, 0.0), std::max(x.high, 0.0)};
      case Op::kSilu:
      case Op::kGelu:
        return {std::max(x.low, -0.5), std::max(x.high, 0.0)};
      case Op::kTanh:
        return {std::tanh(x.low), std::tanh(x.high)};
      case Op::kClamp:
        return {std::clamp(x.low, attributes.low, attributes.high),
                std::clamp(x.high, attributes.low, attributes.high)};
      case Op::kScale:
        return times(x, attributes.factor / static_cast<double>(attributes.count));
      case Op::kAddConstant:
        return {x.low + attributes.factor, x.high + attributes.factor};
      case Op::kSum:
        return sum(node);
      case Op::kSoftmax:
        return {0, 1};
      case Op::kRmsNorm:
        return normed(node);
      case Op::kMax:
      case Op::kMean:
      case Op::kMask:
      case Op::kTranspose:
      case Op::kBroadcast:
      case Op::kSqueeze:
      case Op::kUnsqueeze:
        return x;
      default:
        return {};
    }
  }

  const KernelGraph& graph_;
  std::vector<ValueRange> found_;
};

// No larger than twice what there is already.
bool makes_no_larger(Op op) {
  return op == Op::kSub || op == Op::kSubMax || op == Op::kMax || op == Op::kMask || info(op).kind == OpClass::kView;
}

}  // namespace

double ValueRange::largest() const { return std::max(std::abs(low), std::abs(high)); }

std::vector<ValueRange> value_ranges(const KernelGraph& graph) { return Ranges(graph).run(); }

const KernelNode* maximum_taken_off(const KernelGraph& graph, int tensor) {
  const KernelNode* node = graph.maker(tensor);
  const bool difference = node && (node->op == Op::kSub || node->op == Op::kSubMax);
  return difference ? maximum_of(graph, node->inputs[0], node->inputs[1]) : nullptr;
}

bool may_overflow(const KernelGraph& graph) {
  const std::vector<ValueRange> ranges = value_ranges(graph);
  for (const KernelNode& node : graph.nodes()) {
    const int result = node.outputs[0];
    if (graph.tensor(result).origin == ValueOrigin::kRewritten && !makes_no_larger(node.op) &&
        ranges[static_cast<std::size_t>(result)].largest() > kMostRewritten)
      return true;
  }
  return false;
}

}  // namespace gqa

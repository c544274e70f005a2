// evaluate.cc: see evaluate.h: the interpreter over double.
#include "search/graph/evaluate.h"

#include <algorithm>
#include <cmath>

#include "search/graph/interpreter.h"
#include "search/text.h"

namespace gqa {
namespace {

struct Reals {
  using Value = double;
  Rounding rounding = Rounding::kNone;

  double zero() const { return 0; }
  double lowest() const { return -kInfinity; }
  double constant(double factor, std::int64_t count) const { return factor / static_cast<double>(count); }
  void multiply_add(double& sum, double a, double b) const { sum += a * b; }
  double max(double a, double b) const { return a < b || std::isnan(b) ? b : a; }
  double running_max(double before, double x) const { return max(before, x); }
  double settle(double x, ElementType type) const { return rounding == Rounding::kNone ? x : round_to(x, type); }
  double unary(Op op, const Attributes& attributes, double x) const;
  double binary(Op op, double a, double b) const;
};

double Reals::unary(Op op, const Attributes& attributes, double x) const {
  switch (op) {
    case Op::kExp:
      return std::exp(x);
    case Op::kExp2:
      return std::exp2(x);
    case Op::kSqrt:
      return std::sqrt(x);
    case Op::kRsqrt:
      return 1 / std::sqrt(x);
    case Op::kSquare:
      return x * x;
    case Op::kReciprocal:
      return 1 / x;
    case Op::kRelu:
      return x < 0 ? 0 : x;
    case Op::kSilu:
      return x / (1 + std::exp(-x));
    case Op::kGelu:
      return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kClamp:
      return x < attributes.low ? attributes.low : x > attributes.high ? attributes.high : x;
    case Op::kScale:
      return x * constant(attributes.factor, attributes.count);
    case Op::kAddConstant:
      return x + attributes.factor;
    default:
      return std::nan("");
  }
}

double Reals::binary(Op op, double a, double b) const {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kSubMax:
      return a == -kInfinity ? a : a - b;
    case Op::kNormalize:
      return b == 0 ? 0 : a / b;
    default:
      return std::nan("");
  }
}

Status fill(const KernelGraph& graph, const std::vector<std::vector<double>>& inputs,
            std::vector<DenseTensor<double>>* tensors) {
  if (inputs.size() != graph.inputs().size()) {
    return Status(Code::kSize, std::to_string(inputs.size()) + " inputs: expected " +
                                   std::to_string(graph.inputs().size()) + ", as the graph has");
  }
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    const KernelTensor& tensor = graph.tensor(graph.inputs()[at]);
    if (static_cast<std::int64_t>(inputs[at].size()) != elements(tensor.spec.dims)) {
      return Status(Code::kSize, "input " + quote(tensor.name) + " of " + std::to_string(inputs[at].size()) +
                                     " values: expected " + std::to_string(elements(tensor.spec.dims)) + " for " +
                                     to_text(tensor.spec.dims));
    }
    tensors->emplace_back().dims = tensor.spec.dims;
    tensors->back().data = inputs[at];
  }
  return {};
}

}  // namespace

double round_to(double value, ElementType type) {
  struct Format {
    int digits, least;  // of the significand; exponent of the smallest normal number
    double most;
  };
  constexpr Format kFormats[] = {{11, -14, 65504}, {8, -126, 0x1.FEp127}, {24, -126, 0x1.FFFFFEp127}};
  if (!std::isfinite(value) || value == 0) return value;
  const Format& format = kFormats[static_cast<int>(type)];
  const int exponent = std::max(std::ilogb(value), format.least);
  const double unit = std::ldexp(1, exponent - format.digits + 1);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) > format.most ? std::copysign(kInfinity, value) : rounded;
}

Status evaluate(const KernelGraph& graph, const std::vector<std::vector<double>>& inputs,
                std::vector<std::vector<double>>* outputs, Rounding rounding) {
  std::vector<DenseTensor<double>> tensors;
  if (Status status = fill(graph, inputs, &tensors); !status.ok()) return status;
  Reals reals = {rounding};
  outputs->clear();
  for (DenseTensor<double>& output : interpret(graph, reals, std::move(tensors)))
    outputs->push_back(std::move(output.data));
  return {};
}

}  // namespace gqa

// evaluate.cc: see evaluate.h: the interpreter over double, and over float for the naive run.
#include "search/graph/prove/evaluate.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "search/graph/prove/interpreter.h"
#include "search/text.h"

namespace gqa {
namespace {

// Rounds to 16 bits and back, by the bits of a float: ties to even, past the largest to infinity.
float round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return value;
  return std::bit_cast<float>((bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U);
}

float round_to_f16(float value) {
  const float size = std::abs(value);
  if (size < 0x1p-14F) return std::copysign(size + 0.5F - 0.5F, value);  // 0.5's last place is a subnormal's: 2^-24
  if (size >= 65520) return std::copysign(static_cast<float>(kInfinity), value);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return value;
  return std::bit_cast<float>((bits + 0xfffU + (bits >> 13 & 1U)) & 0xffffe000U);
}

float round_to_16_bits(float value, ElementType type) {
  return type == ElementType::kBF16 ? round_to_bf16(value) : round_to_f16(value);
}

struct Format {
  int digits, least;  // of the significand; exponent of the smallest normal number
  double most;
};
const Format& format_of(ElementType type) {
  static constexpr Format kFormats[] = {{11, -14, 65504}, {8, -126, 0x1.FEp127}, {24, -126, 0x1.FFFFFEp127}};
  return kFormats[static_cast<int>(type)];
}

// By the number's own bits, mixed: the same whoever asks, on any thread.
bool is_odd(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15ULL;
  return ((bits ^ (bits >> 29)) * 0xbf58476d1ce4e5b9ULL) >> 63 != 0;
}

// Double: the reference. Float: the naive run, each result rounded to its type.
template <typename Real>
struct Reals {
  using Value = Real;

  Real zero() const { return 0; }
  Real lowest() const { return static_cast<Real>(-kInfinity); }
  Real constant(double factor, std::int64_t count) const {
    return static_cast<Real>(factor / static_cast<double>(count));
  }
  void multiply_add(Real& sum, Real a, Real b) const { sum += a * b; }
  Real max(Real a, Real b) const { return a < b || std::isnan(b) ? b : a; }
  Real running_max(Real before, Real x) const { return max(before, x); }
  Real unary(Op op, const Attributes& attributes, Real x) const;
  Real binary(Op op, Real a, Real b) const;
  void settle(Real* values, std::int64_t count, ElementType type) {
    const Real most =
        near_overflow ? static_cast<Real>(std::pow(format_of(type).most, 0.75)) : std::numeric_limits<Real>::max();
    std::int64_t past = 0;
    for (std::int64_t at = 0; at < count; ++at) {
      if (std::is_same_v<Real, float> && type != ElementType::kF32)
        values[at] = static_cast<Real>(round_to_16_bits(static_cast<float>(values[at]), type));
      if (disturbance != 0) values[at] *= static_cast<Real>(is_odd(values[at]) ? 1 + disturbance : 1 - disturbance);
      past += !(std::abs(values[at]) <= most);
    }
    nonfinite += past;
  }

  bool near_overflow = false;
  double disturbance = 0;
  std::atomic<std::int64_t> nonfinite = 0;  // of those settled
};

template <typename Real>
Real Reals<Real>::unary(Op op, const Attributes& attributes, Real x) const {
  const auto low = static_cast<Real>(attributes.low), high = static_cast<Real>(attributes.high);
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
      return Real{0.5} * x * std::erfc(-x * std::numbers::sqrt2_v<Real> / 2);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kClamp:
      return x < low ? low : x > high ? high : x;
    case Op::kScale:
      return x * constant(attributes.factor, attributes.count);
    case Op::kAddConstant:
      return x + constant(attributes.factor, 1);
    default:
      return static_cast<Real>(std::nan(""));
  }
}

template <typename Real>
Real Reals<Real>::binary(Op op, Real a, Real b) const {
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
      if (a == lowest()) return a;
      return a == b ? 0 : a - b;
    case Op::kNormalize:
      return b == 0 ? 0 : a / b;
    default:
      return static_cast<Real>(std::nan(""));
  }
}

template <typename From, typename To>
void take(std::vector<From>* from, std::vector<To>* to) {
  if constexpr (std::is_same_v<From, To>)
    *to = std::move(*from);
  else
    to->assign(from->begin(), from->end());
  *from = {};
}

template <typename Real, typename From>
Status fill(const KernelGraph& graph, std::vector<std::vector<From>> inputs, std::vector<DenseTensor<Real>>* tensors) {
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
    take(&inputs[at], &tensors->back().data);
  }
  return {};
}

template <typename Real, typename From>
Status run(const KernelGraph& graph, std::vector<std::vector<From>> inputs, std::vector<std::vector<double>>* outputs,
           const EvaluateOptions& options) {
  std::vector<DenseTensor<Real>> tensors;
  if (Status status = fill(graph, std::move(inputs), &tensors); !status.ok()) return status;
  Reals<Real> reals;
  reals.near_overflow = options.near_overflow;
  reals.disturbance = options.disturbance;
  outputs->clear();
  for (const DenseTensor<Real>& output : interpret(graph, reals, std::move(tensors), options.workers, options.places))
    outputs->emplace_back(output.data.begin(), output.data.end());
  if (options.nonfinite != nullptr) *options.nonfinite = reals.nonfinite;
  if (options.workers.stopped()) return {Code::kCancelled, "the evaluation of a graph was told to stop"};
  return {};
}

}  // namespace

double round_to(double value, ElementType type) {
  if (!std::isfinite(value) || value == 0) return value;
  const Format& format = format_of(type);
  const int exponent = std::max(std::ilogb(value), format.least);
  const double unit = std::ldexp(1, exponent - format.digits + 1);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) > format.most ? std::copysign(kInfinity, value) : rounded;
}

double largest_of(ElementType type) { return format_of(type).most; }

Status evaluate(const KernelGraph& graph, std::vector<std::vector<double>> inputs,
                std::vector<std::vector<double>>* outputs, const EvaluateOptions& options) {
  return options.rounding == Rounding::kNone ? run<double>(graph, std::move(inputs), outputs, options)
                                             : run<float>(graph, std::move(inputs), outputs, options);
}

Status evaluate(const KernelGraph& graph, std::vector<std::vector<float>> inputs,
                std::vector<std::vector<double>>* outputs, const EvaluateOptions& options) {
  return options.rounding == Rounding::kNone ? run<double>(graph, std::move(inputs), outputs, options)
                                             : run<float>(graph, std::move(inputs), outputs, options);
}

Status evaluate(const KernelGraph& graph, std::vector<std::vector<double>> inputs,
                std::vector<std::vector<double>>* outputs, Rounding rounding) {
  EvaluateOptions options;
  options.rounding = rounding;
  return evaluate(graph, std::move(inputs), outputs, options);
}

}  // namespace gqa

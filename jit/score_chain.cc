// score_chain.cc: see score_chain.h.
#include "jit/score_chain.h"

#include <algorithm>
#include <cmath>

namespace gqa {
namespace {

// X(operator, expression of x; $c: its factor, $l and $h: its bounds, $s: its number of the launch)
#define GQA_STEPS(X)                 \
  X(kMul, "x * $s")                  \
  X(kDiv, "x / $s")                  \
  X(kAdd, "x + $s")                  \
  X(kSub, "x - $s")                  \
  X(kScale, "x * $c")                \
  X(kAddConstant, "x + $c")          \
  X(kClamp, "gqa::clamp(x, $l, $h)") \
  X(kTanh, "gqa::fast_tanh(x)")      \
  X(kExp, "gqa::fast_exp(x)")        \
  X(kExp2, "gqa::exp2_approx(x)")    \
  X(kSquare, "gqa::square(x)")       \
  X(kSqrt, "sqrtf(x)")               \
  X(kRsqrt, "rsqrtf(x)")             \
  X(kReciprocal, "1.0f / x")         \
  X(kRelu, "gqa::relu(x)")           \
  X(kSilu, "gqa::fast_silu(x)")      \
  X(kGelu, "gqa::gelu(x)")

struct Row {
  Op op;
  std::string_view expression;
};
constexpr Row kRows[] = {
#define GQA_STEP(op, expression) {Op::op, expression},
    GQA_STEPS(GQA_STEP)
#undef GQA_STEP
};

std::string literal(double value) {
  if (std::isinf(static_cast<float>(value))) return value < 0 ? "gqa::negative_infinity()" : "gqa::infinity()";
  std::string text = to_text(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

void replace(std::string* text, std::string_view what, const std::string& by) {
  if (const auto at = text->find(what); at != std::string::npos) text->replace(at, what.size(), by);
}

// The slot past all others is the launch's factor.
constexpr std::uint8_t kFactorSlot = kScoreSlots;

std::string number(const DeviceStep& step) {
  return step.slot == kFactorSlot ? "numbers->factor" : "numbers->slots[" + std::to_string(step.slot) + "]";
}

std::string expression(const DeviceStep& step) {
  for (const Row& row : kRows) {
    if (row.op != step.op) continue;
    std::string text(row.expression);
    replace(&text, "$c", literal(step.attributes.factor / static_cast<double>(step.attributes.count)));
    replace(&text, "$l", literal(step.attributes.low));
    replace(&text, "$h", literal(step.attributes.high));
    replace(&text, "$s", number(step));
    return text;
  }
  return "x";
}

}  // namespace

std::vector<DeviceStep> device_steps(const ScoreChain& chain) {
  if (!chain.any()) return {};
  std::vector<DeviceStep> steps = {{Op::kMul, {}, kFactorSlot}};
  for (const ChainStep& step : folded(chain).between) steps.push_back({step.op, {}, step.slot});
  return steps;
}

std::string score_chain(const std::string& name, const std::vector<DeviceStep>& steps) {
  const bool brought = std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.slot != kNoSlot; });
  std::string text = "struct " + name + " {\n  static __device__ float apply(float x, const gqa::ScoreParams*" +
                     (brought ? " numbers" : "") + ") {\n";
  for (const DeviceStep& step : steps) text += "    x = " + expression(step) + ";\n";
  return text + "    return x;\n  }\n};\n";
}

std::string to_text(const std::vector<DeviceStep>& steps) {
  std::string text;
  for (const DeviceStep& step : steps) {
    text += (text.empty() ? "" : "; ") + std::string(name(step.op)) + to_text(step.attributes);
    if (step.slot == kFactorSlot) text += " factor";
    if (step.slot < kScoreSlots) text += " slot " + std::to_string(step.slot);
  }
  return text;
}

}  // namespace gqa

// score_chain.cc: see score_chain.h.
#include "jit/score_chain.h"

#include <string_view>

#include "search/graph/ir/op.h"

namespace gqa {
namespace {

// X(operator, expression of x; $s: its number of the launch, $t: the number after it)
#define GQA_STEPS(X)                 \
  X(kMul, "x * $s")                  \
  X(kDiv, "x / $s")                  \
  X(kAdd, "x + $s")                  \
  X(kSub, "x - $s")                  \
  X(kClamp, "gqa::clamp(x, $s, $t)") \
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

void replace(std::string* text, std::string_view what, const std::string& by) {
  if (const auto at = text->find(what); at != std::string::npos) text->replace(at, what.size(), by);
}

std::string number(int slot) { return "numbers->slots[" + std::to_string(slot) + "]"; }

std::string expression(const ChainStep& step) {
  for (const Row& row : kRows) {
    if (row.op != step.op) continue;
    std::string text(row.expression);
    replace(&text, "$s", number(step.slot));
    replace(&text, "$t", number(step.slot + 1));
    return text;
  }
  return "x";
}

}  // namespace

std::string score_chain(const std::string& name, const ScoreChain& chain) {
  std::string text = "struct " + name +
                     " {\n  static __device__ float apply(float x, const gqa::ScoreParams* numbers) {\n"
                     "    x = x * numbers->factor;\n";
  for (const ChainStep& step : folded(chain).between) text += "    x = " + expression(step) + ";\n";
  return text + "    return x;\n  }\n};\n";
}

std::string steps_text(const ScoreChain& chain) {
  std::string text = "mul factor";
  for (const ChainStep& step : folded(chain).between) {
    text += "; " + std::string(name(step.op));
    if (slots_read(step.op) > 0) text += " slot " + std::to_string(step.slot);
    if (slots_read(step.op) > 1) text += " to slot " + std::to_string(step.slot + 1);
  }
  return text;
}

}  // namespace gqa

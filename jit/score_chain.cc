// score_chain.cc: see score_chain.h.
#include "jit/score_chain.h"

#include <string_view>

#include "jit/type_text.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

// X(operator, expression of x, and where scores are as exact as float32 has them; $s: its operand, $t: the slot after
// it)
#define GQA_STEPS(X)                            \
  X(kMul, "x * $s", "")                         \
  X(kDiv, "x / $s", "")                         \
  X(kAdd, "x + $s", "")                         \
  X(kSub, "x - $s", "")                         \
  X(kClamp, "gqa::clamp(x, $s, $t)", "")        \
  X(kTanh, "gqa::fast_tanh(x)", "tanhf(x)")     \
  X(kExp, "gqa::fast_exp(x)", "expf(x)")        \
  X(kExp2, "gqa::exp2_approx(x)", "exp2f(x)")   \
  X(kSquare, "gqa::square(x)", "")              \
  X(kSqrt, "sqrtf(x)", "")                      \
  X(kRsqrt, "rsqrtf(x)", "1.0f / sqrtf(x)")     \
  X(kReciprocal, "1.0f / x", "")                \
  X(kRelu, "gqa::relu(x)", "")                  \
  X(kSilu, "gqa::fast_silu(x)", "gqa::silu(x)") \
  X(kGelu, "gqa::gelu(x)", "")

struct Row {
  Op op;
  std::string_view expression, exact;  // exact: "" where it is the same
};
constexpr Row kRows[] = {
#define GQA_STEP(op, expression, exact) {Op::op, expression, exact},
    GQA_STEPS(GQA_STEP)
#undef GQA_STEP
};

void replace(std::string* text, std::string_view what, const std::string& by) {
  if (const auto at = text->find(what); at != std::string::npos) text->replace(at, what.size(), by);
}

std::string slot_number(int slot) { return "numbers->slots[" + std::to_string(slot) + "]"; }

std::string operand(const ChainStep& step) {
  switch (step.operand) {
    case ChainOperand::kHead:
      return "of.head";
    case ChainOperand::kRow:
      return "of.row";
    case ChainOperand::kTensor:
    case ChainOperand::kTensor32:
      return "of.score";
    default:
      return slot_number(step.slot);
  }
}

std::string operand_text(const ChainStep& step) {
  switch (step.operand) {
    case ChainOperand::kNone:
      return "";
    case ChainOperand::kSlot:
      return " slot " + std::to_string(step.slot);
    case ChainOperand::kHead:
      return " head";
    case ChainOperand::kRow:
      return " row";
    case ChainOperand::kTensor:
      return " tensor";
    case ChainOperand::kTensor32:
      return " tensor32";
  }
  return "";
}

std::string flag(const char* name, bool value) {
  return std::string("  static constexpr bool ") + name + (value ? " = true;\n" : " = false;\n");
}

// Which arrays the chain reads, and the type of the scores'.
std::string arrays(const ScoreChain& chain, ElementType type) {
  return flag("kOfHeads", chain.reads(ChainOperand::kHead)) + flag("kOfRows", chain.reads(ChainOperand::kRow)) +
         flag("kOfScores", chain.reads_tensor()) +
         "  using Element = " + type_text(chain.reads(ChainOperand::kTensor32) ? ElementType::kF32 : type) + ";\n";
}

std::string expression(const ChainStep& step, bool exact) {
  for (const Row& row : kRows) {
    if (row.op != step.op) continue;
    std::string text(exact && !row.exact.empty() ? row.exact : row.expression);
    replace(&text, "$s", operand(step));
    replace(&text, "$t", slot_number(step.slot + 1));
    return text;
  }
  return "x";
}

}  // namespace

std::string score_chain(const std::string& name, const ScoreChain& chain, ElementType type) {
  const bool of_arrays = chain.reads_arrays();
  std::string text = "struct " + name + " {\n" + (of_arrays ? arrays(chain, type) : "") +
                     "  static __device__ float apply(float x, const gqa::ScoreParams* numbers" +
                     (of_arrays ? ", const gqa::OfScore& of" : "") + ") {\n    x = x * numbers->factor;\n";
  for (const ChainStep& step : folded(chain).between)
    text += "    x = " + expression(step, type == ElementType::kF32) + ";\n";
  return text + "    return x;\n  }\n};\n";
}

std::string steps_text(const ScoreChain& chain) {
  std::string text = "mul factor";
  for (const ChainStep& step : folded(chain).between) {
    text += "; " + std::string(name(step.op)) + operand_text(step);
    if (operands_read(step.op) > 1) text += " to slot " + std::to_string(step.slot + 1);
  }
  return text;
}

}  // namespace gqa

// score_chain.cc: see score_chain.h.
#include "search/problem/score_chain.h"

#include <algorithm>
#include <string_view>

#include "search/graph/ir/op.h"
#include "search/problem/problem.h"
#include "search/problem/text_items.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr char kBetweenSteps = '+';

bool is_factor(const ChainStep& step) {
  return step.operand == ChainOperand::kSlot && (step.op == Op::kMul || step.op == Op::kDiv);
}

// Words after an operator's name. The longer one of two that end alike is first.
constexpr struct {
  std::string_view word;
  ChainOperand operand;
} kArrays[] = {{"head", ChainOperand::kHead},
               {"row", ChainOperand::kRow},
               {"tensor32", ChainOperand::kTensor32},
               {"tensor", ChainOperand::kTensor}};

ScoreChain part_of(const ChainStep* first, const ChainStep* last) {
  ScoreChain part;
  for (; first < last; ++first) part.steps[part.count++] = *first;
  return part;
}

std::string step_text(const ChainStep& step) {
  std::string text(name(step.op));
  if (step.operand == ChainOperand::kSlot) return text + std::to_string(step.slot);
  for (const auto& array : kArrays)
    if (step.operand == array.operand) text += array.word;
  return text;
}

// Takes the operand's word off the text's end. An operator's name may end in a digit itself.
ChainStep take_operand(std::string_view* text) {
  ChainStep step;
  if (text->empty() || find_op(*text) != nullptr) return step;
  if (const char last = text->back(); last >= '0' && last <= '9' && find_op(text->substr(0, text->size() - 1))) {
    text->remove_suffix(1);
    step.operand = ChainOperand::kSlot;
    step.slot = static_cast<std::uint8_t>(last - '0');
    return step;
  }
  for (const auto& array : kArrays) {
    if (!text->ends_with(array.word)) continue;
    text->remove_suffix(array.word.size());
    step.operand = array.operand;
    return step;
  }
  return step;
}

Status read_step(std::string_view text, ChainStep* step) {
  std::string_view name = text;
  *step = take_operand(&name);
  const OpInfo* op = find_op(name);
  if (op == nullptr) return text_error("scores: unknown step " + quote(text) + ", expected as in div0+tanh+mul0");
  step->op = op->op;
  return {};
}

// What the operator may have for its operands; "" where it has one of them.
std::string wrong_operand(const ChainStep& step) {
  const int read = operands_read(step.op);
  if (read == 0) return step.operand == ChainOperand::kNone ? "" : "no operand";
  const bool slot = step.operand == ChainOperand::kSlot;
  if (slot ? step.slot <= kScoreSlots - read : read == 1 && step.operand != ChainOperand::kNone) return "";
  return "a slot from 0 to " + std::to_string(kScoreSlots - read) +
         (read == 1 ? ", head, row, tensor or tensor32" : "");
}

}  // namespace

bool ScoreChain::reads(ChainOperand operand) const {
  return std::any_of(begin(), end(), [=](const ChainStep& step) { return step.operand == operand; });
}

ScoreChain softcap_chain() {
  ScoreChain chain;
  chain.steps = {ChainStep{Op::kDiv, ChainOperand::kSlot, kSoftcapSlot}, ChainStep{Op::kTanh},
                 ChainStep{Op::kMul, ChainOperand::kSlot, kSoftcapSlot}};
  chain.count = 3;
  return chain;
}

bool chain_takes(Op op) {
  const OpInfo& row = info(op);
  return row.kind == OpClass::kElementwise && (row.attributes == attribute::none || op == Op::kClamp) &&
         op != Op::kSubMax && op != Op::kNormalize;
}

int operands_read(Op op) { return op == Op::kClamp ? 2 : static_cast<int>(info(op).least) - 1; }

Status check_chain(const ScoreChain& chain) {
  if (chain.count > kMostChainSteps)
    return {Code::kOption,
            std::to_string(chain.count) + " steps on each score, expected at most " + std::to_string(kMostChainSteps)};
  for (const ChainStep& step : chain) {
    const std::string op(name(step.op));
    if (!chain_takes(step.op))
      return {Code::kOption, op + " on each score, expected an elementwise operator whose numbers are operands"};
    if (const std::string expected = wrong_operand(step); !expected.empty())
      return {Code::kOption, op + " on each score, expected " + expected + " with it"};
  }
  if (chain.reads(ChainOperand::kTensor) && chain.reads(ChainOperand::kTensor32))
    return {Code::kOption, "tensor and tensor32 in one chain, expected one of them"};
  return {};
}

FoldedChain folded(const ScoreChain& chain) {
  const ChainStep *first = chain.begin(), *last = chain.end();
  while (first < last && is_factor(*first)) ++first;
  while (last > first && is_factor(last[-1])) --last;
  return {part_of(chain.begin(), first), part_of(first, last), part_of(last, chain.end())};
}

float factor_of(const ScoreChain& factors, const ScoreSlots& slots) {
  float product = 1;
  for (const ChainStep& step : factors) step.op == Op::kMul ? product *= slots[step.slot] : product /= slots[step.slot];
  return product;
}

std::string chain_text(const ScoreChain& chain) {
  if (!chain.any()) return "";
  if (chain == softcap_chain()) return ",softcap";
  std::string text = ",scores=";
  for (const ChainStep& step : chain) {
    if (&step != chain.begin()) text += kBetweenSteps;
    text += step_text(step);
  }
  return text;
}

Status read_chain(TextItems* items, Problem* p) {
  bool softcap = false;
  if (Status status = items->flag("softcap", &softcap); !status.ok()) return status;
  const std::string_view* text = items->value("scores");
  if (softcap && text != nullptr) return text_error("softcap and scores: expected one of them");
  p->chain = softcap ? softcap_chain() : ScoreChain();
  if (text == nullptr) return {};
  for (const std::string_view part : split_text(*text, kBetweenSteps)) {
    if (p->chain.count == kMostChainSteps)
      return text_error("scores=" + quote(*text) + ": expected at most " + std::to_string(kMostChainSteps) + " steps");
    if (Status status = read_step(trim(part), &p->chain.steps[p->chain.count++]); !status.ok()) return status;
  }
  return {};
}

}  // namespace gqa

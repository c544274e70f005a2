// score_chain.cc: see score_chain.h.
#include "search/problem/score_chain.h"

#include <string_view>

#include "search/graph/ir/op.h"
#include "search/problem/problem.h"
#include "search/problem/text_items.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr char kBetweenSteps = '+';

bool is_factor(const ChainStep& step) { return step.op == Op::kMul || step.op == Op::kDiv; }

ScoreChain part_of(const ChainStep* first, const ChainStep* last) {
  ScoreChain part;
  for (; first < last; ++first) part.steps[part.count++] = *first;
  return part;
}

std::string step_text(const ChainStep& step) {
  return std::string(name(step.op)) + (slots_read(step.op) > 0 ? std::to_string(step.slot) : "");
}

Status read_step(std::string_view text, ChainStep* step) {
  const bool numbered = !text.empty() && text.back() >= '0' && text.back() <= '9' && find_op(text) == nullptr;
  const OpInfo* op = find_op(numbered ? text.substr(0, text.size() - 1) : text);
  if (op == nullptr) return text_error("scores: unknown step " + quote(text) + ", expected as in div0+tanh+mul0");
  step->op = op->op;
  if (numbered) step->slot = static_cast<std::uint8_t>(text.back() - '0');
  return {};
}

}  // namespace

ScoreChain softcap_chain() {
  ScoreChain chain;
  chain.steps = {ChainStep{Op::kDiv, kSoftcapSlot}, ChainStep{Op::kTanh}, ChainStep{Op::kMul, kSoftcapSlot}};
  chain.count = 3;
  return chain;
}

bool chain_takes(Op op) {
  const OpInfo& row = info(op);
  return row.kind == OpClass::kElementwise && (row.attributes == attribute::none || op == Op::kClamp) &&
         op != Op::kSubMax && op != Op::kNormalize;
}

int slots_read(Op op) { return op == Op::kClamp ? 2 : static_cast<int>(info(op).least) - 1; }

Status check_chain(const ScoreChain& chain) {
  if (chain.count > kMostChainSteps)
    return {Code::kOption,
            std::to_string(chain.count) + " steps on each score, expected at most " + std::to_string(kMostChainSteps)};
  for (const ChainStep& step : chain) {
    const std::string op(name(step.op));
    if (!chain_takes(step.op))
      return {Code::kOption, op + " on each score, expected an elementwise operator whose numbers are slots"};
    const int read = slots_read(step.op);
    if (read > 0 ? step.slot > kScoreSlots - read : step.slot != kNoSlot)
      return {Code::kOption, op + " on each score, expected " +
                                 (read > 0 ? "a slot from 0 to " + std::to_string(kScoreSlots - read) + " with it"
                                           : std::string("no slot with it"))};
  }
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

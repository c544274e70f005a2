// check_chain.cc: see check_chain.h.
#include "runtime/cuda/trial/check_chain.h"

#include "runtime/call/chain_arrays.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

CheckOperand operand_of(ChainOperand operand) {
  switch (operand) {
    case ChainOperand::kHead:
      return CheckOperand::kHead;
    case ChainOperand::kRow:
      return CheckOperand::kRow;
    case ChainOperand::kTensor:
      return CheckOperand::kScore;
    case ChainOperand::kTensor32:
      return CheckOperand::kScore32;
    default:
      return CheckOperand::kNumber;
  }
}

}  // namespace

bool check_step_of(Op op, CheckStep* step) {
  constexpr struct {
    Op op;
    CheckStep step;
  } kSteps[] = {{Op::kAdd, CheckStep::kAdd},       {Op::kSub, CheckStep::kSub},
                {Op::kMul, CheckStep::kMul},       {Op::kDiv, CheckStep::kDiv},
                {Op::kExp, CheckStep::kExp},       {Op::kExp2, CheckStep::kExp2},
                {Op::kSqrt, CheckStep::kSqrt},     {Op::kRsqrt, CheckStep::kRsqrt},
                {Op::kSquare, CheckStep::kSquare}, {Op::kReciprocal, CheckStep::kReciprocal},
                {Op::kRelu, CheckStep::kRelu},     {Op::kSilu, CheckStep::kSilu},
                {Op::kGelu, CheckStep::kGelu},     {Op::kTanh, CheckStep::kTanh},
                {Op::kClamp, CheckStep::kClamp}};
  for (const auto& each : kSteps) {
    if (each.op != op) continue;
    *step = each.step;
    return true;
  }
  return false;
}

CheckChain check_chain_of(const Call& call) {
  CheckChain chain{};
  for (const ChainStep& step : call.problem.chain) {
    const int at = chain.count++;
    check_step_of(step.op, &chain.steps[at]);
    chain.operands[at] = operand_of(step.operand);
    if (step.operand == ChainOperand::kSlot) chain.numbers[at] = call.slots[step.slot];
    if (operands_read(step.op) > 1) chain.highs[at] = call.slots[step.slot + 1U];
  }
  set_chain_arrays(call, &chain);
  return chain;
}

}  // namespace gqa

// check_chain.cc: see check_chain.h.
#include "runtime/cuda/trial/check_chain.h"

#include "search/graph/ir/op.h"

namespace gqa {

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
    const int at = chain.count++, read = slots_read(step.op);
    check_step_of(step.op, &chain.steps[at]);
    if (read > 0) chain.numbers[at] = call.slots[step.slot];
    if (read > 1) chain.highs[at] = call.slots[step.slot + 1U];
  }
  return chain;
}

}  // namespace gqa

// score_steps.cc: see score_steps.h.
#include "runtime/host/attention/score_steps.h"

#include "runtime/host/program/ops.h"

namespace gqa {

void take_score_steps(const Call& call, float* scores, int count) {
  const HostOps& ops = host_ops();
  ops.binary(Op::kMul, scores, 1, &call.scale, 0, scores, count);
  for (const ChainStep& step : call.problem.chain) {
    if (step.op == Op::kClamp)
      ops.unary({step.op, call.slots[step.slot], call.slots[step.slot + 1U]}, scores, scores, count);
    else if (step.slot == kNoSlot)
      ops.unary({step.op}, scores, scores, count);
    else
      ops.binary(step.op, scores, 1, &call.slots[step.slot], 0, scores, count);
  }
}

}  // namespace gqa

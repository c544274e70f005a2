// score_steps.cc: see score_steps.h.
#include "runtime/host/attention/score_steps.h"

#include <algorithm>

#include "runtime/host/program/ops.h"

namespace gqa {
namespace {

constexpr int kWidened = 256;  // elements at a time

std::int64_t row_at(const Strides& s, const ScoresPlace& place) {
  return place.batch * s.batch + place.position * s.row + place.head * s.head;
}

// scores = scores op those of the tensor's that are beside them.
void take_tensor(const Call& call, const ChainStep& step, const ScoresPlace& place, float* scores, int count) {
  const HostOps& ops = host_ops();
  const std::int64_t first = row_at(call.strides(Role::kBias), place) + place.first_key;
  const ElementType type = step.operand == ChainOperand::kTensor32 ? ElementType::kF32 : call.problem.q_type;
  if (type == ElementType::kF32) {
    ops.binary(step.op, scores, 1, call.at<float>(Role::kBias) + first, 1, scores, count);
    return;
  }
  const auto* elements = call.at<std::uint16_t>(Role::kBias) + first;
  float widened[kWidened];
  for (int at = 0; at < count; at += kWidened) {
    const int some = std::min(kWidened, count - at);
    ops.widen(type, elements + at, widened, some);
    ops.binary(step.op, scores + at, 1, widened, 1, scores + at, some);
  }
}

// The step's one operand of the whole row; null where it has none or one for each score.
const float* row_operand(const Call& call, const ChainStep& step, const ScoresPlace& place) {
  switch (step.operand) {
    case ChainOperand::kSlot:
      return &call.slots[step.slot];
    case ChainOperand::kHead:
      return call.at<float>(Role::kScoreScale) + place.head;
    case ChainOperand::kRow:
      return call.at<float>(Role::kScoreScale) + row_at(call.strides(Role::kScoreScale), place);
    default:
      return nullptr;
  }
}

}  // namespace

void take_score_steps(const Call& call, const ScoresPlace& place, float* scores, int count) {
  const HostOps& ops = host_ops();
  ops.binary(Op::kMul, scores, 1, &call.scale, 0, scores, count);
  for (const ChainStep& step : call.problem.chain) {
    if (step.op == Op::kClamp)
      ops.unary({step.op, call.slots[step.slot], call.slots[step.slot + 1U]}, scores, scores, count);
    else if (step.operand == ChainOperand::kNone)
      ops.unary({step.op}, scores, scores, count);
    else if (const float* number = row_operand(call, step, place))
      ops.binary(step.op, scores, 1, number, 0, scores, count);
    else
      take_tensor(call, step, place, scores, count);
  }
}

}  // namespace gqa

// score_args.h: what a call says of its scores beyond scale and mask: a soft cap, factors, a bias.
// Owns: the rules about gqa_call's softcap and what goes with it, and what scores' operands make of a Problem.
// Never: knows how scores are computed; reads an array: its numbers lie on the device.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include "runtime/api/args/operands.h"
#include "runtime/api/gqa.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

inline constexpr Roles kScoreRoles = roles_where([](const RoleRow& row) { return row.group == Group::kScores; });

// What concerns scores alone: numbers, and what does not go together.
Status check_scores(const gqa_call& call, const Operands& operands);
Status check_scores(const gqa_shape& shape);
// That a factor of packed sequences is one of heads.
Status check_score_forms(const Operands& operands);

struct ScoreTraits {
  bool softcap = false;
  ChainOperand scale = ChainOperand::kNone, bias = ChainOperand::kNone;
};
ScoreTraits score_traits_of(const gqa_call* options, const Operands& operands);
ScoreTraits score_traits_of(const gqa_shape& shape);
void fill_scores(const ScoreTraits& traits, Problem* problem);

}  // namespace gqa

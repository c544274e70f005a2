// resources.h: how a candidate cuts a problem and is launched, from its parameters alone, whatever its family.
// Owns: the questions; launch_plan.h has what the answers are made of. The generated source asserts the plan's shared
// memory (static_assert(sizeof(Smem) == ...)), so host pruning and device layout cannot drift apart.
// Never: asks a driver or measures.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "search/families/candidate.h"
#include "search/families/launch_plan.h"
#include "search/problem/problem.h"

namespace gqa {

CandidateShape shape_of(const Candidate& candidate);

LaunchPlan plan(const Problem& problem, const Candidate& candidate);

// Registers a thread will need, an estimate to prune by: accumulators, scores, fragments and addressing.
int registers(const Problem& problem, const Candidate& candidate);

}  // namespace gqa

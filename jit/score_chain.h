// score_chain.h: what becomes of each score before the softmax, as CUDA source.
// Owns: the text of a function on one float, made of a chain of elementwise operators (ptx/fast_math.cuh), whose
// numbers come with the launch (attention/common/score_params.h, chain_arrays.cuh).
// Never: decides which steps; a problem's chain does. Writes a number.
// Threads: pure functions.
#pragma once

#include <string>

#include "search/element_type.h"
#include "search/problem/score_chain.h"

namespace gqa {

// struct `name` with static apply(float, const ScoreParams*): the launch's factor, then what of the chain joins no
// factor, in order. Where it reads arrays, it says which, and apply has a third argument: what they have for the score.
// `type`: q's; steps on scores of float32 are exact functions.
std::string score_chain(const std::string& name, const ScoreChain& chain, ElementType type);

// "mul factor; tanh; add slot 1; add tensor"
std::string steps_text(const ScoreChain& chain);

}  // namespace gqa

// score_chain.h: what becomes of each score before the softmax, as CUDA source.
// Owns: the text of a function on one float, made of a chain of elementwise operators (device/fast_math.cuh).
// Never: decides which steps; search/graph/attention/attention_form.h does.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "search/graph/attention/attention_form.h"

namespace gqa {

// struct `name` with static apply(float): the steps in order.
std::string score_chain(const std::string& name, const std::vector<ScoreStep>& steps);

// "scale c=0.05; tanh"
std::string to_text(const std::vector<ScoreStep>& steps);

}  // namespace gqa

// score_chain.h: what becomes of each score before the softmax, as CUDA source.
// Owns: the text of a function on one float, made of a chain of elementwise operators (ptx/fast_math.cuh), whose
// numbers are in the text or come with the launch (attention/common/score_params.h).
// Never: decides which steps; a problem's chain does, or search/graph/attention/attention_form.h.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "search/graph/ir/op.h"
#include "search/problem/score_chain.h"

namespace gqa {

// x becomes op(x), of the attributes' numbers or of the launch's one.
struct DeviceStep {
  Op op = Op::kScale;
  Attributes attributes = {};
  std::uint8_t slot = kNoSlot;
};

// The launch's factor, then what of the chain joins no factor. None of no chain.
std::vector<DeviceStep> device_steps(const ScoreChain& chain);

// struct `name` with static apply(float, const ScoreParams*): the steps in order.
std::string score_chain(const std::string& name, const std::vector<DeviceStep>& steps);

// "scale c=0.05; tanh", "mul factor; tanh; add slot 1"
std::string to_text(const std::vector<DeviceStep>& steps);

}  // namespace gqa

// chain_arrays.h: what a problem's chain on scores reads of heads, rows and scores, and its sinks, as kernels take
// them. Owns: set_chain_arrays(). Never: reads an array. Threads: a pure function.
#pragma once

#include "runtime/call/call.h"

namespace gqa {

// A factor is of each query head or of each query row, as the chain says.
template <typename Params>
void set_chain_arrays(const Call& call, Params* params) {
  const ScoreChain& chain = call.problem.chain;
  const auto* factors = call.at<float>(Role::kScoreScale);
  params->heads = chain.reads(ChainOperand::kHead) ? factors : nullptr;
  params->rows = chain.reads(ChainOperand::kRow) ? factors : nullptr;
  params->row_strides = tensor_strides(call.strides(Role::kScoreScale));
  params->scores = call.at(Role::kBias);
  params->score_strides = tensor_strides(call.strides(Role::kBias));
  params->sink = call.at<float>(Role::kSink);
}

}  // namespace gqa

// score_args.h: what a call says of its scores beyond scale and mask: a soft cap, factors, a bias, a sink.
// Owns: the rules about gqa_call's softcap, score_scale, bias and sink, and what they make of a Problem and a Call.
// Never: knows how scores are computed; reads an array: its numbers lie on the device.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/view.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

// What concerns scores alone: numbers, and what does not go together.
Status check_scores(const gqa_call& call);
Status check_scores(const gqa_shape& shape);

// A call's arrays; null where there is none.
struct ScoreTensors {
  const DLTensor *sink = nullptr, *scale = nullptr, *bias = nullptr;
};
ScoreTensors score_tensors_of(const gqa_call* options);

// Sizes that the call's other tensors have.
struct ScoredSizes {
  std::int64_t batch, q_len, q_heads, kv_len;
  bool packed;  // sequences, queries' or keys'
};

struct ScoreViews {
  View sink, scale, bias;
};

Status check_present(const ScoreTensors& given);
Status check_score_tensors(const Device& device, const ScoreTensors& given, const ScoredSizes& sizes,
                           DLDataType q_type);
Status read_views(const ScoreTensors& given, ScoreViews* views);

struct ScoreTraits {
  bool softcap = false, sink = false;
  ChainOperand scale = ChainOperand::kNone, bias = ChainOperand::kNone;
};
ScoreTraits score_traits_of(const gqa_call* options, const ScoreTensors& given);
ScoreTraits score_traits_of(const gqa_shape& shape);
void fill_scores(const ScoreTraits& traits, Problem* problem);
void fill_score_numbers(const gqa_call* options, const ScoreViews& views, Call* call);

}  // namespace gqa

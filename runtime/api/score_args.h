// score_args.h: what a call says of its scores beyond scale and mask: a soft cap, a sink.
// Owns: the rules about gqa_call's softcap and sink, and what they make of a Problem and a Call.
// Never: knows how scores are computed; reads a sink: its numbers lie on the device.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/view.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

Status check_scores(const gqa_call& call);
// A sink may be null in all of these: there is none.
Status check_sink_present(const DLTensor* sink);
Status check_sink(const Device& device, const DLTensor* sink, std::int64_t q_heads);
Status read_sink(const DLTensor* sink, View* view);

struct ScoreTraits {
  bool softcap = false, sink = false;
};
void fill_scores(const ScoreTraits& traits, Problem* problem);
void fill_score_numbers(const gqa_call* options, const View& sink, Call* call);

}  // namespace gqa

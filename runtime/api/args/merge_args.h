// merge_args.h: what gqa_merge_states is handed, checked and made plain.
// Owns: the rules about states (how many, layouts, dtypes, shapes, overlap) and the message of each refusal.
// Never: touches tensor data. Allocates or formats nothing, unless it refuses or a call has more parts than any before.
// Threads: pure functions, but for `parts`, which is the caller's.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/api/gqa.h"
#include "runtime/device.h"

namespace gqa {

struct GivenStates {
  std::int32_t count;
  const DLTensor *const *outs, *const *lses;
  const DLTensor *out, *lse;
  void* stream;
};

// `parts` holds what call->parts points to. Where out has no row call->count stays 0: there is nothing to merge.
Status make_merge(const Device& device, const GivenStates& given, std::vector<AttentionState>* parts, MergeCall* call);

}  // namespace gqa

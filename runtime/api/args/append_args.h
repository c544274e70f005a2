// append_args.h: what a call says of its cache before it attends: new keys, rotation, and where sequences begin in it.
// Owns: the rules about gqa_call's fields from k_new on, and what they make of a Problem, a Call and an Append.
// Never: reads a list or a row; looks at the other tensors, which args.cc has checked before.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/view.h"
#include "runtime/append.h"
#include "runtime/device.h"
#include "search/status.h"

namespace gqa {

// Whether the call does anything before it attends; whether it brings a new key. After check_append_present().
bool appends(const gqa_call* options);
bool adds_keys(const gqa_call* options);

// That fields which belong together are there, as far as options alone say; then that tensors are.
Status check_append_fields(const gqa_call& options);
Status check_append_present(const gqa_call& options);

struct AppendViews {
  View k, v, starts, cos, sin, rotary_starts, batch_idx, leftpad;
};

// k, v: the cache; q has the heads, and `sequences` the call.
struct AppendGiven {
  const gqa_call& options;
  const DLTensor &q, &k, &v;
  std::int64_t sequences;
};
Status check_append_tensors(const Device& device, const AppendGiven& given);
// `k`, `v`, `out`, `lse`: of the call; lse may be empty.
Status read_append(const AppendGiven& given, const View& k, const View& v, const View& out, const View& lse,
                   AppendViews* views);
// After the problem, the call and its lists. `append` is as it was made.
Status fill_append(const gqa_call& options, const AppendViews& views, const View& k, const View& v, Append* append,
                   Call* call);

}  // namespace gqa

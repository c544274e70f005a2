// gqa_merge.cc: gqa_merge_states, see gqa.h.
// Owns: the memory in which a thread's calls list their parts.
// Never: decides anything about a call, or lets an exception out (c_api.h).
// Threads: as gqa.h promises.
#include <vector>

#include "runtime/api/args/merge_args.h"
#include "runtime/api/c_api.h"
#include "runtime/api/gqa.h"
#include "runtime/api/handle.h"

extern "C" gqa_status gqa_merge_states(gqa_handle handle, int32_t count, const DLTensor* const* outs,
                                       const DLTensor* const* lses, const DLTensor* out, const DLTensor* lse,
                                       void* stream) {
  return gqa::guarded([&]() -> gqa::Status {
    if (handle == nullptr) return gqa::null_handle();
    thread_local std::vector<gqa::AttentionState> parts;  // grows with the largest call
    gqa::MergeCall call;
    const gqa::GivenStates given = {count, outs, lses, out, lse, stream};
    gqa::Status status = gqa::make_merge(handle->session.device(), given, &parts, &call);
    return status.ok() && call.count > 0 ? handle->session.merge(call) : status;
  });
}

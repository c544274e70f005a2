// launch_numbers.h: what a launch takes from lengths alone: tiles, divisors, the grid.
// Owns: LaunchNumbers, computed once for a kernel and the lengths of a call, and the ones each thread used last.
// Never: holds an address or a stride. Allocates.
// Threads: any; what is cached is each thread's own.
#pragma once

#include <cstdint>

#include "jit/device/attention/common/cache_params.h"
#include "jit/device/attention/common/params.h"
#include "jit/device/attention/common/score_params.h"
#include "runtime/device.h"
#include "search/families/resources.h"

namespace gqa {

struct LaunchNumbers {
  AttentionParams params;  // without addresses, strides and scale
  LaunchPlan plan;
};
LaunchNumbers launch_numbers(const Problem& problem, const Candidate& candidate);

// The same from the thread's cache. `kernel` is a number that stands for the candidate and is never used again; the
// reference is good until the next call on this thread.
const LaunchNumbers& cached_numbers(std::uint64_t kernel, const Problem& problem, const Candidate& candidate);

// The rest of the parameters, without workspace.
void set_tensors(const Call& call, AttentionParams* params);

// What launch_arguments.h hands over beside them.
CacheParams cache_params_of(const Call& call);
ScoreParams score_params_of(const Call& call);

}  // namespace gqa

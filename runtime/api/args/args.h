// args.h: what a caller hands in, checked and made plain.
// Owns: every rule about DLTensors and the C structs (rank, dtype, device, shapes, strides, alignment, overlap, struct
// sizes, option ranges) and the message of each refusal.
// Never: touches tensor data, or allocates or formats anything unless it refuses.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/api/gqa.h"
#include "runtime/call/call.h"
#include "runtime/device.h"
#include "runtime/tuning.h"
#include "search/problem/problem.h"
#include "search/problem/serving_range.h"
#include "search/status.h"

namespace gqa {

// What kernels load at once where rows start on a multiple of it: it decides which of them serve.
inline constexpr std::uintptr_t kVectorBytes = 16;

inline constexpr double kMostSeconds = 1e6;  // of a budget

// Four tensors and the options of a call (`given`, may be null) -> a call ready to launch on this device.
// Where a call has no query or no sequence, it has no out: there is nothing to attend to, and nothing at all to run
// where it does not append, either.
// A dimension of size 1 gets stride 0 whatever stride it came with: nothing is ever read along it.
Status make_call(const Device& device, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                 const gqa_call* given, Call* call);

// A caller's options (may be null) as of today's header: those of an older one in `whole`, what it had not yet NULL and
// 0; any others as they are.
const gqa_call* of_today(const gqa_call* options, gqa_call* whole);

// Whether `tuning` is one of its enum's numbers, and which that is; none: the handle's. The call was checked.
bool has_known_tuning(const gqa_call& call);
std::optional<Tuning> tuning_of(const gqa_call* call);

// gqa_warm's shape -> a problem with 16-byte aligned rows.
Status make_problem(const gqa_shape* given, Problem* problem);

// gqa_warm_serving's range, and the layer that makes its calls: all of them but for their lengths.
Status read_serving(const gqa_serving* given, ServingRange* range, Problem* layer);

// gqa_create's options, which may not be null -> the same as this library's struct, checked.
Status read_options(const gqa_options& given, gqa_options* options);
Status check_budget(const char* name, double seconds);  // 0 to kMostSeconds

}  // namespace gqa

// cache_args.h: what a call says of its sequences beyond the tensors: lengths, packing, pages and a window.
// Owns: the rules about gqa_call's maxima and window_size (and gqa_shape's), and what lists make of a Problem.
// Never: reads a list: its numbers lie on the device, and checked.h judges them where that is asked for.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include <cstdint>

#include "runtime/api/args/operands.h"
#include "runtime/api/args/sizes.h"
#include "runtime/api/args/views.h"
#include "runtime/api/gqa.h"
#include "runtime/device.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

// That maxima are there for packed sequences, and only for those.
Status check_packing(const gqa_call& call, const Operands& operands);

// `window`: null, or the two numbers; `name`: "gqa_call.window_size".
Status check_window(const char* name, const std::int32_t* window);

// After the problem's kv_len and q_len: a side that hides nothing of so many keys is as good as none.
void fill_mask(bool causal, const std::int32_t* window, Problem* problem);
// Sequences: their number, lengths and maxima, and how keys lie.
void fill_sequences(const Operands& operands, const Sizes& sizes, const gqa_call* options, Problem* problem);

}  // namespace gqa

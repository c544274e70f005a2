// append_args.h: what a call says of its cache before it attends: new keys, rotation, and where sequences begin in it.
// Owns: the rules about gqa_call's fields from k_new on, and what they make of a Problem and a Call.
// Never: reads a list or a row; looks at each tensor by itself, which check_elements() and Sizes have done before.
// Threads: pure functions; nothing is allocated unless it is refused.
#pragma once

#include "runtime/api/args/operands.h"
#include "runtime/api/args/sizes.h"
#include "runtime/api/args/views.h"
#include "runtime/api/gqa.h"
#include "runtime/device.h"
#include "search/status.h"

namespace gqa {

// That fields which belong together are there.
Status check_append_fields(const gqa_call& options, const Operands& operands);
Status check_rotary(const Operands& operands, const Sizes& sizes);

// After the problem and the call's tensors. call->append is as it was made.
Status fill_append(const gqa_call& options, const Operands& operands, const Views& views, Call* call);

}  // namespace gqa

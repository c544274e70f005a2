// recent_calls.h: calls that differ from one checked before in their addresses only.
// Owns: for each thread, the last few calls that passed every check: how their tensors were described, the call that
// came of it, and what a session found for it (prepared.h). A model's layers and a benchmark's tensor sets are such
// calls. Never: accepts what args.cc would not: what depends on addresses (null, alignment, overlap, the end of the
// address space) is checked anew, and anything unusual is left to args.cc and its messages. Threads: each has its own;
// nothing is allocated.
#pragma once

#include "runtime/api/args/operands.h"
#include "runtime/api/gqa.h"
#include "runtime/device.h"

namespace gqa {

// options: null, or a caller's. False: args.cc must look.
bool find_recent_call(const Device& device, const Operands& operands, const gqa_call* options, Call* call);

// `call`: what args.cc made of it.
void remember_call(const Operands& operands, const gqa_call* options, const Call& call);

}  // namespace gqa

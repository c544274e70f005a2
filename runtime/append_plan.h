// append_plan.h: how a call that appends becomes one launch, where attention's kernel does both, or else two steps.
// Owns: which calls one launch can serve; the memory between two (the lists of lengths and starts, the rotated
// queries), what the first is handed, and the call that the second is. Never: runs either; host_appender.h and
// cuda_appender.h do. Threads: pure functions; nothing is allocated.
#pragma once

#include <cstdint>

#include "jit/device/append/append_params.h"
#include "runtime/append.h"
#include "runtime/device.h"

namespace gqa {

// Whether attention's own kernel can append what the call brings, where it appends at all: as many tokens for each
// sequence, no more than it has queries, in rows of whole vectors, in a cache whose rows are the sequences'.
bool is_plain_append(const Call& call);
// The tokens as a kernel is handed them.
NewTokens new_tokens(const Append& append);
// Bytes of the memory between the steps. Its beginning is aligned to 256 bytes.
std::int64_t append_bytes(const Call& call);
// `between`: so much memory, on the call's device.
AppendParams append_params(const Call& call, char* between);
// Warps of work: rows of AppendParams::warp_heads heads.
std::int64_t append_items(const AppendParams& params);
// CTAs of the kernel: a warp an item, a thread a sequence.
unsigned append_blocks(const AppendParams& params);
Call attended_call(const Call& call, const AppendParams& params);

}  // namespace gqa

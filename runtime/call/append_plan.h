// append_plan.h: how a call that appends becomes one launch, where attention's kernel does both, or else two steps.
// Owns: which calls one launch can serve; the memory between two (the lists of lengths and starts, the rotated
// queries), what the first is handed, and the call that the second is. Never: runs either; host_appender.h and
// cuda_appender.h do. Threads: pure functions; nothing is allocated.
#pragma once

#include <cstdint>

#include "jit/device/append/append_params.h"
#include "runtime/call/call.h"

namespace gqa {

// Whether attention's own kernel can append what the call brings, where it appends at all: as many tokens for each
// sequence, no more than it has queries, in rows of whole vectors, in a cache whose rows are the sequences'.
bool is_plain_append(const Call& call);
// The tokens as a kernel is handed them; none where the call does not append.
NewTokens new_tokens(const Call& call);
// Where sequences begin anywhere, a dense cache is attended to as packed keys, whose starts are made, and one in pages
// by a table that is made: of the same pages, or, with padding, of one slot each. So is a dense one whose rows are not
// a whole number of slots apart: each of its rows is a page. values_apart(): values begin at rows of their own.
bool makes_starts(const Call& call);
bool makes_table(const Call& call);
bool values_apart(const Call& call);
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

// mask.h: which keys a query sees, in a sequence of so many queries and keys.
// Owns: the rule of each mask, in positions, its numbers and its words of the problem's text: the host's kernels, cost
// and refusals ask here, as the device's loops ask jit/device/attention/common/walk.cuh. References say the rule for
// themselves.
// Never: knows tiles or blocks. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "search/problem/problem.h"
#include "search/problem/text_items.h"

namespace gqa {

// Keys [first, end) of a sequence; none where end is not above first.
struct KeyRange {
  std::int32_t first = 0, end = 0;

  std::int32_t count() const { return std::max(0, end - first); }
};

struct SequenceSize {
  std::int32_t queries = 0, keys = 0;
};

// What the query at `position` sees. The last query stands beside the last key (bottom-right).
KeyRange seen_keys(const Problem& problem, SequenceSize of, std::int32_t position);
// What queries [first, end) see between them.
KeyRange seen_keys(const Problem& problem, SequenceSize of, std::int32_t first, std::int32_t end);

// Whether later queries see more keys, so that row tiles differ in work and the longest go first. A window's tiles are
// alike but at its ends.
inline bool work_grows(const KernelTraits& traits) { return traits.mask == Mask::kCausal; }

// Sets the mask that shows `left` keys before the query's own and `right` after it, -1 for all of them: none, causal
// (all, 0) or a window.
void set_window(std::int32_t left, std::int32_t right, Problem* problem);

// The same of a call, after its kv_len and q_len: a side that hides nothing of so many keys is as good as none.
void set_call_window(std::int32_t left, std::int32_t right, Problem* problem);

// The most keys that one query, and that all of a sequence's, see.
std::int32_t most_keys_of_a_query(const Problem& problem);
std::int32_t most_keys_of_all_queries(const Problem& problem);
// Pairs of a query and a key that it sees, of a head of the longest sequence.
double seen_pairs(const Problem& problem);

Status check_mask(const Problem& problem);
// The same mask said more simply, where queries are as few as the problem's.
void simplify_mask(Problem* problem);

// The mask's words of the problem's text: ",causal,left=100".
std::string mask_text(const Problem& problem);
Status read_mask(TextItems* items, Problem* problem);

}  // namespace gqa

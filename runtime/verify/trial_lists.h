// trial_lists.h: the lengths and page tables that trials read: what callers may hand in, at its most unpleasant.
// Owns: lists for verification and for timing from a fixed seed; how many pages a trial's k and v hold; which of their
// keys no sequence uses, so that trials poison them.
// Never: owns device memory.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/verify/trial_operand.h"
#include "search/problem/problem.h"

namespace gqa {

// What a call of the trial is handed. Entries of the table that no length reaches are far out of range.
struct TrialLists {
  std::vector<std::int32_t> q_starts, k_starts;  // batch + 1, of packed queries or keys; else empty
  std::vector<std::int32_t> lengths;             // 0 to kv_len, of each sequence; empty unless its kv_lengths are kEach
  std::vector<std::int32_t> table;  // a row of table_width() entries for each sequence; empty unless problem.paged()
};

// Those that there are, by role; good as long as the lists are.
TrialOperands operands_of(const Problem& problem, const TrialLists& lists);

inline constexpr std::int32_t kEntryPastLength = 0x7fffffff;

// Entries of a row: enough for kv_len keys. 0 where there are no pages.
std::int32_t table_width(const Problem& problem);

// Pages that k and v hold: one for each entry, and one that nobody refers to; fewer where that would be gigabytes, and
// then sequences share them. 0 where there are no pages.
std::int32_t trial_pages(const Problem& problem);

// How many queries a sequence has, and rows of q and out before its first beyond what the batch's stride says.
std::int32_t queries_of(const Problem& problem, const TrialLists& lists, std::int32_t sequence);
std::int32_t first_query_of(const Problem& problem, const TrialLists& lists, std::int32_t sequence);
// Rows of q and out that sequences have between them.
std::int64_t query_rows(const Problem& problem, const TrialLists& lists);

// One sequence has all kv_len keys and one, where there are two, none; the rest end beside a page's end, have fewer
// keys than queries, or any number. A single one has two thirds of them, so that whoever takes kv_len is caught. Pages
// are out of order; sequences share some that they fill.
TrialLists verification_lists(const Problem& problem, std::uint64_t seed);

// Lengths as serving has them: log-normal with sigma 0.8 about half of kv_len, cut there, and one of them kv_len;
// packed queries likewise, of no sequence more than its keys, and as many where both are packed and q_len is kv_len.
// Pages are out of order; none is shared that need not be.
TrialLists timing_lists(const Problem& problem, std::uint64_t seed);

// The lists of a call that brings each sequence's last key with it. A sequence without keys is brought one, too.
struct AppendLists {
  std::vector<std::int32_t> cached;  // keys of each sequence before the call
  std::vector<std::int32_t> table;   // as TrialLists has it; a sequence without keys has a page, too, which is nobody's
  // Rows of k and v as they lie: of each sequence's last key, -1 where it has none; and whether no other sequence reads
  // it.
  std::vector<std::int64_t> rows;
  std::vector<bool> own;
};
AppendLists append_lists(const Problem& problem, const TrialLists& lists);

// Keys [first, first + count) of k and v as they lie, sequence after sequence or page after page.
struct KeyRun {
  std::int64_t first = 0, count = 0;
};

// What no sequence uses, in ascending order, neighbours as one.
std::vector<KeyRun> unused_keys(const Problem& problem, const TrialLists& lists);

}  // namespace gqa

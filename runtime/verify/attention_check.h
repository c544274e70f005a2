// attention_check.h: what is compared of an attention's results.
// Owns: which rows are compared with the reference, what a device measures of a run, and its words for the judgement.
// Never: computes attention or compares; devices do. Never judges (judgement.h).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/verify/judgement.h"
#include "runtime/verify/trial_lists.h"
#include "search/problem/problem.h"

namespace gqa {

// Numbers of the rows to compare, in (batch, head, position) order and ascending: all where there are at most `most`,
// else a fixed sample that holds the first and last rows, those at tile edges, and the rest spread evenly. Where
// queries are packed, those that sequences have.
std::vector<std::int64_t> rows_to_check(const Problem& problem, const TrialLists& lists, std::int64_t most);

// What Measured::inputs calls those of the runs after the first.
inline constexpr const char* kHardInputs = "hard queries";
inline constexpr const char* kNewTokenInputs = "new tokens";

// What a device measured of one run.
struct Comparison {
  RowErrors rows;                    // by numbers of checked rows; elements: checked row * head_dim_v + dimension
  double lse_share = 0;              // max |lse - reference| / lse_allowed(reference); 0 where none is asked for
  std::int64_t worst_lse_index = 0;  // checked row
  std::int64_t unwritten = 0;        // elements that still hold the poison, of out and lse
  std::int64_t nonfinite = 0;        // NaN or infinite elements; the reference has none
  std::int64_t stray = 0;            // elements written outside the problem
  std::int64_t workspace = 0;        // words written around the workspace, and counters not left zero
};

// The workspace, out and log-sum-exp. The workspace comes first, as it explains the rest: without its counters a split
// never merges, and its rows stay unwritten. `inputs`: Measured::inputs.
std::vector<Measured> measured(const Problem& problem, const std::vector<std::int64_t>& rows,
                               const Comparison& comparison, const std::string& inputs = {});

}  // namespace gqa

// checked.h: what a checked handle looks at before each call: the numbers in its lengths and its page table.
// Owns: check_lists(), on copies of the lists in host memory, and its messages.
// Never: copies from a device; Device::check_lists does.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

// Lengths are 0 to kv_len, and the entries that a length reaches 0 to pages - 1: the first that is not is named with
// its sequence and page. `lengths`: null unless problem.lengths_differ(). `table`: null unless problem.paged(); rows of
// it are `stride` entries apart, and entries past a length are not read.
Status check_lists(const Problem& problem, const std::int32_t* lengths, const std::int32_t* table, std::int64_t stride,
                   std::int32_t pages);

}  // namespace gqa

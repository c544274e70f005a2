// checked.h: what a checked handle looks at before each call: the numbers in its lists.
// Owns: check_lists(), on lists in host memory, and its messages.
// Never: copies from a device; Device::check_lists does.
// Threads: pure functions.
#pragma once

#include <string>

#include "runtime/call/call.h"
#include "search/status.h"

namespace gqa {

// Only the call's problem, lists and counts of rows are read; the lists are in host memory. Starts ascend from 0 and
// end within the rows of their tensor, no sequence has more than the maximum, lengths are 0 to what there is, and the
// entries that a length reaches 0 to pages - 1. New keys have room, and a slot for each, rows of the cache exist,
// padding is within a length, and cos and sin have a row for each position. The first number that is wrong is named
// with its sequence. Entries of a table past a length, and before its padding, are not read. `odd`, unless null: what
// is right and may still be a mistake, "" where nothing is: starts that end before their tensor does.
Status check_lists(const Call& call, std::string* odd = nullptr);

}  // namespace gqa

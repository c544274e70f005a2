// retune.h: a winner's shape raced again.
// Owns: which winners can be raced here, the race, and which row stays.
// Never: prints. Threads: one; the tuner starts its own.
#pragma once

#include <string>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/tuner.h"

namespace gqa::tools {

struct Retuned {
  cache::WinnerRow before, after;  // of the present race; `after` need not be kept
  bool kept = false;               // `after` took the place of `before`
  std::string why;                 // where it did not
};

// Races the winner's shape on the device, by the tuner's rules. The row stays where the race counts for less than its
// own: it was disturbed, or did not come to the row's candidate and found none that is faster than the row says.
// Throws Failure where it cannot be raced: it is a graph's, or another device's.
Retuned retune(Device& device, cache::Store& store, const cache::WinnerRow& row, const TunePolicy& policy,
               const ProgressFn& progress);

// "", or why the race that made `after` counts for less than what `before` says.
std::string counts_for_less(const cache::WinnerRow& before, const cache::WinnerRow& after);

}  // namespace gqa::tools

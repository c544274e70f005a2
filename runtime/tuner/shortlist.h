// shortlist.h: which of the ranked options are worth a compiler's time.
// Owns: the choice: options that need a kernel of their own, best rank first, then those that share others' kernels.
// Never: compiles, or makes a program; `usable` may.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/workload/workload.h"

namespace gqa {

struct Shortlist {
  std::vector<std::size_t> own;          // need a kernel that none before them needs; best rank first
  std::vector<std::size_t> sharing;      // all their kernels are those of others
  std::vector<std::size_t> passed_over;  // ranked, but not chosen
};

// At most `kernels` options with kernels of their own, and at most `attempts` in all. `usable` is asked of each before
// it is chosen: one that is not is neither chosen nor passed over.
Shortlist shortlist(const std::vector<Option>& ranked, std::size_t kernels, std::size_t attempts,
                    const std::function<bool(std::size_t)>& usable);

}  // namespace gqa

// shortlist.h: which of the ranked candidates are worth a compiler's time.
// Owns: the choice of kernels (by distinct code, best rank first) and of the launch-only variants that ride along.
// Never: compiles.
// Threads: pure functions.
#pragma once

#include <vector>

#include "search/families/space.h"

namespace gqa {

struct ShortlistedKernel {
  std::vector<Ranked> candidates;  // share one kernel; best rank first, never empty
};

struct Shortlist {
  std::vector<ShortlistedKernel> kernels;  // best rank first
  std::vector<Ranked> passed_over;         // ranked, but not chosen
};

// At most `kernels` kernels, and at most `attempts` candidates over all of them (at least one a kernel).
Shortlist shortlist(const std::vector<Ranked>& ranked, int kernels, int attempts);

}  // namespace gqa

// explanation.h: why a call runs as it does.
// Owns: Explanation; what a session knows of a problem, what the cost model would choose, and the nearest problem that
// is served faster.
// Never: tunes, compiles, launches, or changes what is cached.
// Threads: as Session; values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session/session.h"
#include "runtime/workload/nearest_call.h"
#include "search/problem/problem.h"

namespace gqa {

struct Explanation {
  std::string problem;  // as gqa-cache writes it; "": the tensors say none
  std::string source;   // "tuned": measured in this process; "cache"; "guess"; "refused"
  std::string kernel;   // a family with its parameters; "": refused
  std::string reason;
  std::vector<std::pair<std::string, double>> evidence;  // numbers by name, with their unit in it
  std::optional<NearestCall> nearest;

  std::string text() const;  // lines to read
  std::string json() const;
};

// problem: one that passes check().
Explanation explain(Session& session, const Problem& problem);

}  // namespace gqa

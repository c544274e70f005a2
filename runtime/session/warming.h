// warming.h: shapes made ready before anyone calls.
// Owns: what a warmed shape brings beside its winner; the plan of a serving range, the order of its work, what is told.
// Never: reads a struct of the C interface; tunes (Session does).
// Threads: each call is its caller's; any number at once, of which one tunes at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/session/session.h"
#include "runtime/tuner/forecast.h"
#include "search/problem/serving_range.h"

namespace gqa {

// Its winner; and what merges states or appends to a cache, where calls of the shape may need that.
Status warm(Session& session, const Problem& problem);

struct ServingProgress {
  Outlook plan;
  std::int64_t done = 0, failed = 0;  // shapes
  std::string shape;                  // the last that was done; "": none yet
  double seconds = 0;
};

struct ServingRequest {
  ServingRange range;
  Problem layer;  // all of its calls but for their lengths
  bool plan_only = false;
  std::function<void(const ServingProgress&)> progress;  // may be empty
};

// Tells the plan, then makes each shape ready and tells that. Shapes that fail are counted, and the first is returned.
Status warm(Session& session, const ServingRequest& request);

}  // namespace gqa

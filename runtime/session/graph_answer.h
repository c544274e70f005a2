// graph_answer.h: from a user's graph to the program that runs it.
// Owns: the way between the user's order of inputs and outputs and the canonical one, which all below works in.
// Never: searches or remembers; the session does.
// Threads: as Session.
#pragma once

#include <string>

#include "runtime/session/session.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

struct GraphRequest {
  KernelGraph graph;  // as the user built it
  std::string config;
  std::uint64_t seed = 1;
  double budget_seconds = 0;  // 0: the session's
  ProgressFn progress;        // may be empty
};

struct GraphAnswer {
  std::shared_ptr<const ReadyProgram> ready;  // inputs and outputs in canonical order
  KernelGraph program;                        // with its thread plans; likewise
  Canonical canonical;                        // which of the user's inputs and outputs are which of the program's
  Origin origin = Origin::kTuned;
};

Status answer(Session& session, const GraphRequest& request, GraphAnswer* answer);

}  // namespace gqa

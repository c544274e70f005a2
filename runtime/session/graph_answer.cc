// graph_answer.cc: see graph_answer.h.
#include "runtime/session/graph_answer.h"

#include "runtime/workload/graph_workload.h"
#include "search/graph/ir/graph_text.h"
#include "search/text.h"

namespace gqa {

Status answer(Session& session, const GraphRequest& request, GraphAnswer* answer) {
  if (find_config(request.config) == nullptr)
    return text_error("config " + quote(request.config) + ": expected none or " + config_names());
  answer->canonical = canonical(request.graph);
  KernelGraph graph;
  if (Status s = reorder(request.graph, answer->canonical.inputs, answer->canonical.outputs, &graph); !s.ok()) return s;
  GraphWorkload workload(graph, answer->canonical.digest, request.config, request.seed);
  ReadyRequest how;
  how.budget_seconds = request.budget_seconds;
  how.progress = request.progress;
  how.serves = [&](const ReadyProgram& other) {  // two graphs that one digest does not tell apart
    KernelGraph program;
    return parse(other.winner.candidate, &program).ok() && proves(graph, program, request.seed);
  };
  ReadyResult readied;
  if (Status status = session.ready(workload, how, &readied); !status.ok()) return status;
  answer->ready = std::move(readied.ready);
  answer->origin = readied.origin;
  return parse(answer->ready->winner.candidate, &answer->program);
}

}  // namespace gqa

// warming.cc: see warming.h.
#include "runtime/session/warming.h"

#include <vector>

#include "runtime/workload/attention_workload.h"
#include "runtime/workload/operation_workload.h"

namespace gqa {
namespace {

constexpr double kUnlimited = 1e9;  // seconds: each shape has the session's budget

// Sizes aside, since those of a range that are too large are left out of it.
Status check_layer(const Problem& layer) {
  Problem smallest = layer;
  smallest.batch = smallest.q_len = smallest.kv_len = 1;
  return check(smallest);
}

Status forecast_of(Session& session, const std::vector<Signature>& shapes, const Effort& effort, Outlook* plan) {
  Forecast forecast(session.device(), session.store(), session.policy(), Forecast::Work::kTune);
  for (const Signature& shape : shapes) {
    AttentionWorkload workload(shape);
    Status status = effort.check();
    if (status.ok()) status = forecast.add(workload);
    if (!status.ok()) return status;
  }
  *plan = forecast.outlook();
  return {};
}

Status failures(const ServingProgress& at, const std::string& shape, const Status& first) {
  return {first.code(), std::to_string(at.failed) + " of " + std::to_string(at.done) +
                            " shapes are not ready; the first, " + shape + ": " + first.message()};
}

}  // namespace

Status warm(Session& session, const Problem& problem) {
  Status status = session.ready(problem);
  if (!status.ok()) return status;
  // Where one of these fails the shape is ready none the less, and the first call that needs it says why it is not.
  for (const Operation operation : operations_beside(problem)) static_cast<void>(session.ready(operation));
  return {};
}

Status warm(Session& session, const ServingRequest& request) {
  if (Status status = check_layer(request.layer); !status.ok()) return status;
  const Effort effort = session.effort(kUnlimited);
  const std::vector<Signature> shapes = signatures(request.range, request.layer);
  ServingProgress at;
  const auto tell = [&] {
    at.seconds = effort.seconds();
    if (request.progress) request.progress(at);
  };
  if (Status status = forecast_of(session, shapes, effort, &at.plan); !status.ok()) return status;
  tell();
  Status first;
  std::string first_shape;
  for (const Signature& shape : shapes) {
    if (request.plan_only) break;
    Status status = effort.check();
    if (status.ok()) status = warm(session, shape.problem());
    if (effort.cancelled()) return effort.check();
    ++at.done;
    at.shape = to_text(shape);
    if (!status.ok() && at.failed++ == 0) {
      first = status;
      first_shape = at.shape;
    }
    tell();
  }
  return first.ok() ? first : failures(at, first_shape, first);
}

}  // namespace gqa

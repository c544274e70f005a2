// workspace.cc: see workspace.h.
#include "runtime/cuda/workspace/workspace.h"

#include <cstdint>

#include "runtime/cuda/driver/capture.h"

namespace gqa {

Status WorkspacePool::take(CUstream stream, const LaunchPlan& plan, WorkspacePin* pin) {
  std::uint64_t capture = 0, number = 0;
  if (Status s = capture_of(driver_, stream, &capture); !s.ok()) return s;
  if (capture != 0) return captured_.take(stream, number_in_capture(stream), capture, plan, &pin->workspace);
  if (Status s = number_of(driver_, stream, &number); !s.ok()) return s;
  return live_.take(stream, number, plan, pin);
}

void WorkspacePool::clear() {
  live_.clear();
  captured_.clear();
}

}  // namespace gqa

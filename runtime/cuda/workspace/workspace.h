// workspace.h: the memory in which a kernel's CTAs meet: partials and counters.
// Owns: who shares it. Live calls of one stream do, since work on a stream is ordered; so do captured calls of one
// stream in one capture (captured_workspaces.h), and no others.
// Never: synchronises, or moves memory under work in flight. Counters are zeroed by a memset queued on the same stream
// before their first use; every kernel leaves them zero.
// Threads: take() from many threads. A live call whose stream has a workspace that is large enough takes no lock.
#pragma once

#include "runtime/cuda/workspace/captured_workspaces.h"
#include "runtime/cuda/workspace/live_workspaces.h"

namespace gqa {

class WorkspacePool {
 public:
  explicit WorkspacePool(const Driver& driver) : driver_(driver), live_(driver), captured_(driver) {}

  // Room for the plan, for launches on the stream while the pin lives. Needs the context to be current until then.
  Status take(CUstream stream, const LaunchPlan& plan, WorkspacePin* pin);
  // Frees everything; no work that uses it may be in flight, nor a graph that holds some of it be launched again. Needs
  // the context to be current, as destruction does.
  void clear();

 private:
  const Driver& driver_;
  LiveWorkspaces live_;
  CapturedWorkspaces captured_;
};

}  // namespace gqa

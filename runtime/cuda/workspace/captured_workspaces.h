// captured_workspaces.h: the workspaces of captured calls, which live as long as the graphs that use them.
// Owns: one for each stream of each capture: calls that a capture forks over streams may run at once, and so may graphs
// of two captures. The graph being captured holds a user object, and so does whatever is cloned or instantiated from
// it; once the last of them is destroyed and has run, the driver calls back, and the workspace serves the next capture.
// A replay begins with a memset of the counters, so nothing that happened before can be left in them.
// Never: gives memory of a graph's to anyone else while the graph lives. The callback calls nothing of CUDA's: it sets
// a flag, which outlives the pool.
// Threads: take() from many threads, under a lock: capturing is no hot path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/workspace/workspace_memory.h"

namespace gqa {

class CapturedWorkspaces {
 public:
  explicit CapturedWorkspaces(const Driver& driver) : driver_(driver) {}

  // `number` is the stream's; `capture` is that which it is part of.
  Status take(CUstream stream, std::uint64_t number, std::uint64_t capture, const LaunchPlan& plan,
              Workspace* workspace);
  void clear();

 private:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  struct Captured {
    std::uint64_t stream, capture;
    WorkspaceMemory memory;
    Flag dropped;  // by the last graph
  };

  Captured* find(std::uint64_t number, std::uint64_t capture);
  Status add(CUstream stream, std::uint64_t number, std::uint64_t capture, const LaunchPlan& plan, Captured** added);
  Status tie(CUstream stream, const Flag& dropped) const;
  void reap();
  WorkspaceMemory spare_for(const LaunchPlan& plan);

  const Driver& driver_;
  std::mutex mutex_;
  std::vector<Captured> captured_;
  std::vector<WorkspaceMemory> spare_;  // of graphs that are gone
};

}  // namespace gqa

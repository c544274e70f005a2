// captured_workspaces.cc: see captured_workspaces.h.
#include "runtime/cuda/workspace/captured_workspaces.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

constexpr std::size_t kMostSpare = 4;  // more are freed, which waits for the device

}  // namespace

Status CapturedWorkspaces::take(CUstream stream, std::uint64_t number, std::uint64_t capture, const LaunchPlan& plan,
                                Workspace* workspace) {
  const std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(driver_);
  Captured* captured = find(number, capture);
  if (captured == nullptr)
    if (Status s = add(stream, number, capture, plan, &captured); !s.ok()) return s;
  if (!captured->memory.holds(plan))
    if (Status s = captured->memory.grow(driver_, stream, plan); !s.ok()) return s;
  *workspace = captured->memory.get();
  return {};
}

// The newest first: a capture in progress is the last one.
CapturedWorkspaces::Captured* CapturedWorkspaces::find(std::uint64_t number, std::uint64_t capture) {
  const auto found = std::find_if(captured_.rbegin(), captured_.rend(),
                                  [&](const Captured& one) { return one.stream == number && one.capture == capture; });
  return found == captured_.rend() ? nullptr : &*found;
}

Status CapturedWorkspaces::add(CUstream stream, std::uint64_t number, std::uint64_t capture, const LaunchPlan& plan,
                               Captured** added) {
  reap();
  const auto dropped = std::make_shared<std::atomic<bool>>(false);
  if (Status s = tie(stream, dropped); !s.ok()) return s;
  captured_.push_back({number, capture, spare_for(plan), dropped});
  *added = &captured_.back();
  const Status zeroed = captured_.back().memory.zero_counters(driver_, stream);
  if (!zeroed.ok()) captured_.pop_back();
  return zeroed;
}

// The flag is set once nothing is left of the graph that the stream's capture makes.
Status CapturedWorkspaces::tie(CUstream stream, const Flag& dropped) const {
  CUgraph graph = nullptr;
  CUuserObject object = nullptr;
  if (Status s = graph_of(driver_, stream, &graph); !s.ok()) return s;
  auto owned = std::make_unique<Flag>(dropped);
  const auto destroy = [](void* flag) {
    const std::unique_ptr<Flag> last(static_cast<Flag*>(flag));
    (*last)->store(true, std::memory_order_release);
  };
  CUresult result = driver_.cuUserObjectCreate(&object, owned.get(), destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) return driver_.error("cuUserObjectCreate", result);
  (void)owned.release();
  result = driver_.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS) return {};
  driver_.cuUserObjectRelease(object, 1);
  return driver_.error("cuGraphRetainUserObject", result);
}

// Takes back what dropped graphs held.
void CapturedWorkspaces::reap() {
  const auto gone = std::stable_partition(captured_.begin(), captured_.end(), [](const Captured& one) {
    return !one.dropped->load(std::memory_order_acquire);
  });
  for (auto one = gone; one != captured_.end(); ++one) {
    if (spare_.size() == kMostSpare) spare_.erase(spare_.begin());
    spare_.push_back(std::move(one->memory));
    spare_.back().drop_outgrown();
  }
  captured_.erase(gone, captured_.end());
}

WorkspaceMemory CapturedWorkspaces::spare_for(const LaunchPlan& plan) {
  const auto fits =
      std::find_if(spare_.rbegin(), spare_.rend(), [&](const WorkspaceMemory& memory) { return memory.holds(plan); });
  if (fits == spare_.rend()) return {};
  WorkspaceMemory found = std::move(*fits);
  spare_.erase(std::next(fits).base());
  return found;
}

void CapturedWorkspaces::clear() {
  const std::lock_guard lock(mutex_);
  captured_.clear();
  spare_.clear();
}

}  // namespace gqa

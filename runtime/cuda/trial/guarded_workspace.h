// guarded_workspace.h: a trial's workspace, with poison around it.
// Owns: partials and counters for one launch at a time, each between guards, and the look at what a kernel did to them.
// Never: serves users; workspace.h does.
// Threads: belongs to one trial. Needs the context to be current.
#pragma once

#include <cstdint>

#include "runtime/cuda/workspace/workspace.h"

namespace gqa {

class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(const Driver& driver) : driver_(driver) {}

  // Room for the plan: guards poisoned, counters zero, both queued on the stream.
  Status prepare(CUstream stream, const LaunchPlan& plan, Workspace* workspace);
  // Once the kernel is done: guard words that changed, and counters that are not zero again.
  Status inspect(CUstream stream, std::int64_t* damaged) const;
  void clear() { memory_ = DeviceMemory(); }

 private:
  static constexpr std::int64_t kGuard = 1024;  // words of poison before, between and after

  std::int64_t words() const { return 3 * kGuard + plan_.partial_floats + plan_.counters; }
  CUdeviceptr word(std::int64_t index) const { return memory_.address() + static_cast<CUdeviceptr>(4 * index); }
  std::int64_t first_counter() const { return 2 * kGuard + plan_.partial_floats; }

  const Driver& driver_;
  LaunchPlan plan_;
  DeviceMemory memory_;
};

}  // namespace gqa

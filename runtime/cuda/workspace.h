// workspace.h: the memory in which a kernel's CTAs meet: partials and counters.
// Owns: one workspace a stream (work on a stream is ordered, so its calls can share one), and one for each stream of
// each graph capture (a graph may be replayed beside anything). It grows as needed and is never shrunk or moved under
// work in flight: outgrown buffers live until the pool does. Never: synchronises. Counters are zeroed by a memset
// queued on the same stream before their first use; every kernel leaves them zero. Threads: take() from many threads; a
// short lock that nothing slow is done under, except growing.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/cuda/memory.h"
#include "search/families/resources.h"

namespace gqa {

struct Workspace {
  float* partials = nullptr;
  unsigned int* counters = nullptr;
};

class WorkspacePool {
 public:
  explicit WorkspacePool(const Driver& driver) : driver_(driver) {}

  Status take(CUstream stream, const LaunchPlan& plan, Workspace* workspace);
  // Frees everything; no work that uses it may be in flight. Needs the context to be current, as destruction does.
  void clear();

 private:
  struct Slot {
    CUstream stream;
    std::uint64_t capture;  // 0: not a capture
    DeviceMemory partials, counters;
  };
  Slot* find(CUstream stream, std::uint64_t capture);
  Status grow(Slot* slot, const LaunchPlan& plan);
  Status grow_counters(Slot* slot, std::size_t count);
  void retire(DeviceMemory* memory, DeviceMemory&& fresh);

  const Driver& driver_;
  std::mutex mutex_;
  std::vector<Slot> live_, captured_;
  std::vector<DeviceMemory> outgrown_;
};

// The capture that a stream is part of; 0 if none.
Status capture_of(const Driver& driver, CUstream stream, std::uint64_t* id);

}  // namespace gqa

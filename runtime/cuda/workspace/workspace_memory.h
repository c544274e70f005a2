// workspace_memory.h: the device memory of one workspace.
// Owns: Workspace, what a kernel is handed, and WorkspaceMemory, which grows as plans ask for more. Memory that it
// outgrew is kept, since work in flight may use it, until the owner says that there is none.
// Never: decides who shares a workspace; workspace.h does. Synchronises.
// Threads: a value with one owner. Needs the context to be current.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cuda/driver/memory.h"
#include "search/families/resources.h"

namespace gqa {

struct Workspace {
  float* partials = nullptr;
  unsigned int* counters = nullptr;
};

class WorkspaceMemory {
 public:
  bool holds(const LaunchPlan& plan) const {
    return partial_floats() >= plan.partial_floats && counters() >= plan.counters;
  }
  // Bytes for the plan alone: what a workspace takes that had nothing.
  static std::int64_t bytes_for(const LaunchPlan& plan);
  // Room for the plan. New counters are zeroed by a memset queued on the stream: a node of the graph, if it captures.
  Status grow(const Driver& driver, CUstream stream, const LaunchPlan& plan);
  // The same for counters that are there already, for a first use on another stream.
  Status zero_counters(const Driver& driver, CUstream stream) const;
  // Frees what was outgrown; no work may use it.
  void drop_outgrown() { outgrown_.clear(); }

  Workspace get() const { return {partials_.as<float>(), counters_.as<unsigned int>()}; }
  std::int64_t partial_floats() const { return static_cast<std::int64_t>(partials_.bytes() / 4); }
  std::int64_t counters() const { return static_cast<std::int64_t>(counters_.bytes() / 4); }

 private:
  void replace(DeviceMemory* memory, DeviceMemory&& fresh);

  DeviceMemory partials_, counters_;
  std::vector<DeviceMemory> outgrown_;
};

}  // namespace gqa

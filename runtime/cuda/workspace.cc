// workspace.cc: see workspace.h.
#include "runtime/cuda/workspace.h"

#include <algorithm>

namespace gqa {
namespace {

// Allocation is not a stream operation, but a capture in the default mode forbids it to the whole thread.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

Status capture_of(const Driver& driver, CUstream stream, std::uint64_t* id) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  const CUresult result = driver.cuStreamGetCaptureInfo(stream, &status, &capture, nullptr, nullptr, nullptr);
  if (result != CUDA_SUCCESS) return driver.error("cuStreamGetCaptureInfo", result);
  *id = status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : capture;
  return {};
}

Status WorkspacePool::take(CUstream stream, const LaunchPlan& plan, Workspace* workspace) {
  std::uint64_t capture = 0;
  if (Status status = capture_of(driver_, stream, &capture); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  Slot* slot = find(stream, capture);
  if (slot->partials.bytes() < static_cast<std::size_t>(plan.partial_floats) * 4 ||
      slot->counters.bytes() < static_cast<std::size_t>(plan.counters) * 4) {
    if (Status status = grow(slot, plan); !status.ok()) return status;
  }
  *workspace = {slot->partials.as<float>(), slot->counters.as<unsigned int>()};
  return {};
}

void WorkspacePool::clear() {
  const std::lock_guard lock(mutex_);
  live_.clear();
  captured_.clear();
  outgrown_.clear();
}

WorkspacePool::Slot* WorkspacePool::find(CUstream stream, std::uint64_t capture) {
  std::vector<Slot>& slots = capture == 0 ? live_ : captured_;
  // The newest first: a capture in progress is the last one.
  const auto found = std::find_if(slots.rbegin(), slots.rend(),
                                  [&](const Slot& slot) { return slot.stream == stream && slot.capture == capture; });
  if (found != slots.rend()) return &*found;
  slots.push_back({stream, capture, {}, {}});
  return &slots.back();
}

// Half as much again, so that growing lengths do not allocate at each step. A kernel that only counts has no partials.
Status WorkspacePool::grow(Slot* slot, const LaunchPlan& plan) {
  const RelaxedCapture relaxed(driver_);
  const std::size_t partial_bytes = static_cast<std::size_t>(plan.partial_floats) * 4;
  const std::size_t counters = static_cast<std::size_t>(plan.counters);
  if (slot->partials.bytes() < partial_bytes) {
    DeviceMemory fresh;
    if (Status s = DeviceMemory::allocate(driver_, partial_bytes / 2 * 3, &fresh); !s.ok()) return s;
    retire(&slot->partials, std::move(fresh));
  }
  return slot->counters.bytes() < counters * 4 ? grow_counters(slot, counters * 3 / 2 + 64) : Status();
}

Status WorkspacePool::grow_counters(Slot* slot, std::size_t count) {
  DeviceMemory fresh;
  if (Status s = DeviceMemory::allocate(driver_, count * 4, &fresh); !s.ok()) return s;
  const CUresult result = driver_.cuMemsetD32Async(fresh.address(), 0, count, slot->stream);
  if (result != CUDA_SUCCESS) return driver_.error("cuMemsetD32Async", result);
  retire(&slot->counters, std::move(fresh));
  return {};
}

// What work in flight may still use is kept.
void WorkspacePool::retire(DeviceMemory* memory, DeviceMemory&& fresh) {
  if (memory->bytes() > 0) outgrown_.push_back(std::move(*memory));
  *memory = std::move(fresh);
}

}  // namespace gqa

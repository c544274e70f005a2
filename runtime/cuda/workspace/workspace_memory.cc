// workspace_memory.cc: see workspace_memory.h.
#include "runtime/cuda/workspace/workspace_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

constexpr std::int64_t kLeastCounters = 64;

std::int64_t counters_for(std::int64_t needed) { return needed > 0 ? std::max(kLeastCounters, needed) : 0; }

// By half at least, so that growing lengths do not allocate at each step.
std::int64_t grown(std::int64_t now, std::int64_t needed) { return std::max(needed, now + now / 2); }

// Words of four bytes.
Status allocate(const Driver& driver, std::int64_t words, DeviceMemory* memory) {
  return DeviceMemory::allocate(driver, static_cast<std::size_t>(words) * 4, memory);
}

Status zero(const Driver& driver, CUstream stream, const DeviceMemory& memory) {
  const CUresult result = driver.cuMemsetD32Async(memory.address(), 0, memory.bytes() / 4, stream);
  return driver.error("cuMemsetD32Async", result);
}

}  // namespace

std::int64_t WorkspaceMemory::bytes_for(const LaunchPlan& plan) {
  return 4 * (plan.partial_floats + counters_for(plan.counters));
}

// A kernel that only counts has no partials.
Status WorkspaceMemory::grow(const Driver& driver, CUstream stream, const LaunchPlan& plan) {
  const RelaxedCapture relaxed(driver);
  if (partial_floats() < plan.partial_floats) {
    DeviceMemory fresh;
    if (Status s = allocate(driver, grown(partial_floats(), plan.partial_floats), &fresh); !s.ok()) return s;
    replace(&partials_, std::move(fresh));
  }
  if (counters() < plan.counters) {
    DeviceMemory fresh;
    const std::int64_t words = counters_for(grown(counters(), plan.counters));
    if (Status s = allocate(driver, words, &fresh); !s.ok()) return s;
    if (Status s = zero(driver, stream, fresh); !s.ok()) return s;
    replace(&counters_, std::move(fresh));
  }
  return {};
}

Status WorkspaceMemory::zero_counters(const Driver& driver, CUstream stream) const {
  return counters() > 0 ? zero(driver, stream, counters_) : Status();
}

void WorkspaceMemory::replace(DeviceMemory* memory, DeviceMemory&& fresh) {
  if (memory->bytes() > 0) outgrown_.push_back(std::move(*memory));
  *memory = std::move(fresh);
}

}  // namespace gqa

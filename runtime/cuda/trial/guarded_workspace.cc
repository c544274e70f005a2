// guarded_workspace.cc: see guarded_workspace.h.
#include "runtime/cuda/trial/guarded_workspace.h"

#include <algorithm>
#include <vector>

namespace gqa {
namespace {

constexpr std::uint32_t kPoisonWord = 0xffffffffU;

}  // namespace

Status GuardedWorkspace::prepare(CUstream stream, const LaunchPlan& plan, Workspace* workspace) {
  plan_ = plan;
  *workspace = {};
  if (!plan.needs_workspace()) return {};
  const auto bytes = static_cast<std::size_t>(words()) * 4;
  if (memory_.bytes() < bytes) {
    memory_ = DeviceMemory();  // first, so that both need not fit
    if (Status s = DeviceMemory::allocate(driver_, bytes, &memory_); !s.ok()) return s;
  }
  CUresult result = driver_.cuMemsetD8Async(memory_.address(), 0xff, bytes, stream);
  if (result == CUDA_SUCCESS)
    result = driver_.cuMemsetD32Async(word(first_counter()), 0, static_cast<std::size_t>(plan.counters), stream);
  if (result != CUDA_SUCCESS) return driver_.error("poisoning a trial's workspace", result);
  *workspace = {reinterpret_cast<float*>(word(kGuard)), reinterpret_cast<unsigned int*>(word(first_counter()))};
  return {};
}

Status GuardedWorkspace::inspect(CUstream stream, std::int64_t* damaged) const {
  *damaged = 0;
  if (!plan_.needs_workspace()) return {};
  const struct {
    std::int64_t first, count;
    std::uint32_t expected;
  } regions[] = {{0, kGuard, kPoisonWord},
                 {kGuard + plan_.partial_floats, kGuard, kPoisonWord},
                 {first_counter(), plan_.counters, 0},
                 {first_counter() + plan_.counters, kGuard, kPoisonWord}};
  for (const auto& region : regions) {
    std::vector<std::uint32_t> values(static_cast<std::size_t>(region.count));
    CUresult result = driver_.cuMemcpyDtoHAsync(values.data(), word(region.first), 4 * values.size(), stream);
    if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(stream);
    if (result != CUDA_SUCCESS) return driver_.error("reading a trial's workspace", result);
    *damaged += region.count - std::count(values.begin(), values.end(), region.expected);
  }
  return {};
}

}  // namespace gqa

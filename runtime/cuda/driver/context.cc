// context.cc: see context.h.
#include "runtime/cuda/driver/context.h"

#include <cstddef>
#include <utility>

#include "runtime/cuda/driver/capture.h"

namespace gqa {

Status Context::retain(const Driver& driver, CUdevice device, Context* context) {
  const RelaxedCapture relaxed(driver);
  CUcontext primary = nullptr;
  if (const CUresult result = driver.cuDevicePrimaryCtxRetain(&primary, device); result != CUDA_SUCCESS)
    return driver.error("cuDevicePrimaryCtxRetain", result);
  Context retained;
  retained.driver_ = &driver;
  retained.device_ = device;
  retained.context_ = primary;
  *context = std::move(retained);
  return {};
}

// Whatever asks the context answers with what broke it.
Status context_works(const Driver& driver) {
  std::size_t free_bytes = 0, total_bytes = 0;
  const CUresult result = driver.cuMemGetInfo(&free_bytes, &total_bytes);
  if (result == CUDA_SUCCESS) return {};
  const Status status = driver.error("cuMemGetInfo", result);
  if (result == CUDA_ERROR_NOT_INITIALIZED) return status;
  return {Code::kDeviceFailed, "the CUDA context no longer works: " + status.message() +
                                   "; something that ran in this process before broke it: start the process anew"};
}

Context::Context(Context&& other) noexcept { *this = std::move(other); }

Context& Context::operator=(Context&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(device_, other.device_);
  std::swap(context_, other.context_);
  return *this;
}

Context::~Context() {
  if (context_ == nullptr) return;
  const RelaxedCapture relaxed(*driver_);
  driver_->cuDevicePrimaryCtxRelease(device_);
}

}  // namespace gqa

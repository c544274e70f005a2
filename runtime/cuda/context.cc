// context.cc: see context.h.
#include "runtime/cuda/context.h"

#include <utility>

namespace gqa {

Status Context::retain(const Driver& driver, CUdevice device, Context* context) {
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

Context::Context(Context&& other) noexcept { *this = std::move(other); }

Context& Context::operator=(Context&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(device_, other.device_);
  std::swap(context_, other.context_);
  return *this;
}

Context::~Context() {
  if (context_ != nullptr) driver_->cuDevicePrimaryCtxRelease(device_);
}

}  // namespace gqa

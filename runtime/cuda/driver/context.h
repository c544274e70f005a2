// context.h: the CUDA context a thread works in.
// Owns: a device's primary context (the one every framework shares), and making it current for a scope.
// Never: creates a context of its own.
// Threads: any; current contexts are a thread's own.
#pragma once

#include "runtime/cuda/driver/driver.h"

namespace gqa {

class Context {
 public:
  static Status retain(const Driver& driver, CUdevice device, Context* context);
  Context() = default;
  Context(Context&& other) noexcept;
  Context& operator=(Context&& other) noexcept;
  ~Context();

  const Driver& driver() const { return *driver_; }
  CUcontext get() const { return context_; }

 private:
  const Driver* driver_ = nullptr;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// Whether the current context works: the driver's error where a fault, anyone's, has broken it for good or the process
// was forked.
Status context_works(const Driver& driver);

// Makes the context current until the end of the scope; one cheap query where it already is.
class Current {
 public:
  explicit Current(const Context& context) : driver_(context.driver()) {
    CUcontext now = nullptr;
    driver_.cuCtxGetCurrent(&now);
    if (now != context.get()) pushed_ = driver_.cuCtxPushCurrent(context.get()) == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext popped;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace gqa

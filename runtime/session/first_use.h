// first_use.h: a kernel that serves all calls of one kind, on the session's device, made at first use: what merges
// states, what appends to a cache.
// Owns: the thing that runs it, and how that comes to be: from the cache, or compiled and kept there.
// Never: tunes: there is one kernel for all shapes.
// Threads: ready() from any thread without a lock; make() from many at once, one of which makes it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/device.h"
#include "runtime/tuner/compile_pool.h"

namespace gqa {

// Finds kernels, or has them made. All that it is given must outlive it.
struct KernelFinder {
  const Device& device;
  const CompilePool& compile_pool;
  bool cached_only;  // what the cache does not hold is not compiled

  // `what`: the kernel, for messages: "merges states".
  Status find_or_make(const Source& kernel, const char* what, Made* made) const;
};

template <typename Thing>
class FirstUse {
 public:
  // How a device says which kernel it is (its text is "" where there is none), and loads it.
  using Kernel = Source (Device::*)() const;
  using Load = Status (Device::*)(const Binary&, std::unique_ptr<Thing>*);

  FirstUse(Device& device, const KernelFinder& finder, const char* what, Kernel kernel, Load loads)
      : device_(device), finder_(finder), what_(what), kernel_(kernel), load_(loads) {}

  // Null until make() has succeeded.
  const Thing* ready() const { return ready_.load(std::memory_order_acquire); }

  Status make() {
    const std::lock_guard lock(mutex_);
    if (thing_ != nullptr) return {};
    const Source kernel = (device_.*kernel_)();
    const Status status = kernel.text.empty() ? (device_.*load_)({}, &thing_) : load(kernel);
    if (status.ok()) ready_.store(thing_.get(), std::memory_order_release);
    return status;
  }

 private:
  // A stored kernel that the driver refuses is made anew.
  Status load(const Source& kernel) {
    Made made;
    if (Status status = finder_.find_or_make(kernel, what_, &made); !status.ok()) return status;
    const Status status = (device_.*load_)(made.binary, &thing_);
    if (status.ok() || !made.from_store || finder_.cached_only) return status;
    made = finder_.compile_pool.make(kernel);
    return made.status.ok() ? (device_.*load_)(made.binary, &thing_) : made.status;
  }

  Device& device_;
  const KernelFinder finder_;
  const char* const what_;
  const Kernel kernel_;
  const Load load_;
  std::atomic<const Thing*> ready_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Thing> thing_;
};

}  // namespace gqa

// merging.h: what merges states on the session's device, made at first use.
// Owns: the merger, and how it comes to be: from the cache, or compiled and kept there.
// Never: tunes: there is one kernel for all shapes.
// Threads: ready() from any thread without a lock; make() from many at once, one of which makes it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/workshop.h"

namespace gqa {

class Merging {
 public:
  // All must outlive it. `cached_only`: what the cache does not hold is not compiled.
  Merging(Device& device, cache::Store& store, const Workshop& workshop, bool cached_only)
      : device_(device), store_(store), workshop_(workshop), cached_only_(cached_only) {}

  // Null until make() has succeeded.
  const StateMerger* ready() const { return ready_.load(std::memory_order_acquire); }
  Status make();

 private:
  Status find_or_make(const Source& kernel, Made* made) const;
  Status load(const Source& kernel);

  Device& device_;
  cache::Store& store_;
  const Workshop& workshop_;
  const bool cached_only_;
  std::atomic<const StateMerger*> ready_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<StateMerger> merger_;
};

}  // namespace gqa

// cuda_trial_base.h: what the trials of attention and of graphs have alike on a GPU.
// Owns: the device's shared state, the checker, a stream of the trial's own; the health and the clock of the GPU,
// and whether others use it.
// Never: knows inputs, outputs or references; the trials do.
// Threads: belongs to one thread.
#pragma once

#include <memory>
#include <utility>

#include "runtime/cuda/driver/capture.h"
#include "runtime/cuda/launch/cuda_program.h"
#include "runtime/cuda/trial/checker.h"
#include "runtime/cuda/trial/trial_stream.h"
#include "runtime/device.h"

namespace gqa {

class CudaTrialBase : public Trial {
 public:
  Status health() override {
    const BesideCaptures here(shared_->context);
    return stream_.health();
  }
  bool unfinished() override {
    const BesideCaptures here(shared_->context);
    return stream_.unfinished();
  }
  double clock_mhz() override {
    const BesideCaptures here(shared_->context);
    return stream_.clock_mhz(*checker_, clock_memory());
  }
  double taken_by_others() override {
    const BesideCaptures here(shared_->context);
    return stream_.taken_by_others(*checker_, clock_memory());
  }

 protected:
  // `what`: is timed, in messages.
  CudaTrialBase(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const char* what,
                const Effort& effort)
      : shared_(std::move(shared)), checker_(std::move(checker)), stream_(driver(), what, effort) {}

  virtual CUdeviceptr clock_memory() const = 0;  // of two unsigned long longs
  const Driver& driver() const { return shared_->context.driver(); }

  std::shared_ptr<CudaShared> shared_;
  std::shared_ptr<const Checker> checker_;
  TrialStream stream_;
  int launches_ = 1;  // a graph
};

}  // namespace gqa

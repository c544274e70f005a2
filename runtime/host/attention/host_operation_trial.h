// host_operation_trial.h: what appends to caches, or merges states, on the CPU, held against its cases.
// Owns: the copies of a case that it runs on; the clock.
// Never: judges; operation_case.h does.
// Threads: belongs to one thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/run_delay.h"
#include "runtime/verify/operation_case.h"

namespace gqa {

class HostOperationTrial final : public Trial {
 public:
  HostOperationTrial(Operation operation, int threads, const Effort& effort)
      : operation_(operation), threads_(threads), effort_(effort) {}

  Verdict verify(const LoadedProgram& program) override;
  // The first case is timed.
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;
  double taken_by_others() override { return run_delay_.share(threads_); }

 private:
  const Operation operation_;
  const int threads_;
  const Effort effort_;
  std::unique_ptr<TrialMemory> timed_memory_;
  std::unique_ptr<OperationCase> timed_;  // placed
  RunDelay run_delay_;
};

}  // namespace gqa

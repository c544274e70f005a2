// cuda_operation_trial.h: the kernel that appends to caches, or merges states, on a GPU, held against its cases.
// Owns: the cases' memory on the device, a pool of its own for what a launch keeps between its steps.
// Never: touches the users' streams or memory, or judges (operation_case.h).
// Threads: belongs to one thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/trial/cuda_trial_base.h"
#include "runtime/verify/operation_case.h"

namespace gqa {

class CudaOperationTrial final : public CudaTrialBase {
 public:
  static Status make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, Operation operation,
                     const Effort& effort, std::unique_ptr<Trial>* trial);
  ~CudaOperationTrial() override;

  Verdict verify(const LoadedProgram& program) override;
  // The first case is timed.
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;

 private:
  class Memory;
  class OwnPool;
  CudaOperationTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, Operation operation,
                     const Effort& effort);
  CUdeviceptr clock_memory() const override { return clocks_.address(); }

  const Operation operation_;
  const Effort effort_;
  std::unique_ptr<WorkspacePool> intermediates_;
  std::unique_ptr<TrialMemory> timed_memory_;
  std::unique_ptr<OperationCase> timed_;  // placed
  DeviceMemory clocks_;
};

}  // namespace gqa

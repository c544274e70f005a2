// cuda_program_trial.h: a user's graph on a GPU: inputs, reference, verification and clocks.
// Owns: the reference's inputs, as often as rotation needs, poisoned and guarded outputs.
// Never: touches the users' streams or memory, or judges (program_reference.h).
// Threads: belongs to one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/cuda/launch/cuda_program.h"
#include "runtime/cuda/trial/cuda_trial_base.h"
#include "runtime/verify/program_reference.h"

namespace gqa {

class CudaProgramTrial : public CudaTrialBase {
 public:
  static Status make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const DeviceSpec& spec,
                     const KernelGraph& graph, const Effort& effort, std::unique_ptr<Trial>* trial);
  ~CudaProgramTrial() override;

  Verdict verify(const LoadedProgram& program) override;
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;

 private:
  CudaProgramTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const KernelGraph& graph,
                   const Effort& effort);
  Status set_up(const DeviceSpec& spec);
  Status upload_all();
  Status allocate_outputs();
  Status with_memory(const std::function<Status()>& work);
  void let_go();
  Status upload(int set);
  Status upload(const TensorBytes& bytes, DeviceMemory* memory);
  Status run(const CudaProgram& program, std::size_t trial, std::vector<TensorBytes>* outputs);
  Status launch(const CudaProgram& program, int set, std::size_t trial);
  CUdeviceptr clock_memory() const override { return clocks_.address(); }

  const KernelGraph graph_;
  ProgramReference reference_;
  std::unique_ptr<WorkspacePool> intermediates_, partials_;  // outgrown memory stays that of the graphs that use it
  int sets_ = 1;
  std::vector<std::vector<DeviceMemory>> inputs_;    // by set
  std::vector<std::vector<DeviceMemory>> replaced_;  // of each further trial, the inputs that are others
  std::vector<DeviceMemory> outputs_;                // between guards
  DeviceMemory clocks_;
};

}  // namespace gqa

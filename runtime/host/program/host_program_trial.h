// host_program_trial.h: a user's graph on the CPU: inputs, reference, verification and clocks.
// Owns: rotated random inputs, guarded outputs, the graph's reference.
// Never: judges; program_reference.h does.
// Threads: belongs to one thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/run_delay.h"
#include "runtime/verify/program_reference.h"

namespace gqa {

class HostProgramTrial final : public Trial {
 public:
  static Status make(const KernelGraph& graph, const DeviceSpec& spec, const Effort& effort,
                     std::unique_ptr<Trial>* trial);

  Verdict verify(const LoadedProgram& program) override;
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;
  double taken_by_others() override { return run_delay_.share(threads_); }

 private:
  HostProgramTrial(const KernelGraph& graph, int threads, const Effort& effort)
      : graph_(graph), threads_(threads), effort_(effort) {}
  void rotate_inputs(int sets);
  void allocate_outputs();
  // A run on the given set's inputs; what it points to is the trial's, until the next call.
  ProgramCall call(std::size_t set);
  Status launch(const LoadedProgram& program, const ProgramCall& with, double* microseconds) const;

  const KernelGraph graph_;
  const int threads_;
  const Effort effort_;
  ProgramReference reference_;
  std::vector<std::vector<TensorBytes>> rotated_;  // further sets of inputs: copies, what rotates is where they lie
  std::vector<TensorBytes> guarded_;               // an output each
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::size_t next_set_ = 0;
  RunDelay run_delay_;
};

}  // namespace gqa

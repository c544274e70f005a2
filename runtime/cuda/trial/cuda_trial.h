// cuda_trial.h: one problem on a GPU: inputs, reference, verification and clocks.
// Owns: rotated random inputs (together more than three L2s), hard queries, a poisoned and guarded output and
// workspace, the naive reference of the rows checked, a stream. Never: touches the users' streams or workspaces.
// Threads: belongs to one thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/launch/cuda_program.h"
#include "runtime/cuda/trial/cuda_trial_base.h"
#include "runtime/cuda/trial/guarded_workspace.h"
#include "runtime/cuda/trial/new_tokens_run.h"
#include "runtime/device.h"
#include "runtime/verify/attention_check.h"
#include "runtime/verify/trial_layout.h"
#include "runtime/verify/trial_lists.h"
#include "runtime/verify/trial_operand.h"

namespace gqa {

class CudaTrial : public CudaTrialBase {
 public:
  // How time() times, part of every winner's key.
  static constexpr const char* kMethod = "graph replay, rotated inputs, cold L2, idle-gapped, v2";

  static Status make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const DeviceSpec& spec,
                     const Problem& problem, const Effort& effort, std::unique_ptr<Trial>* trial);
  ~CudaTrial() override;

  Verdict verify(const LoadedProgram& program) override;
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;

 private:
  // The problem at its own lengths, on the queries that are timed, and on hard ones a few shorter, so that tile edges
  // are exercised: same keys and strides. The third is the first once more, of kernels that append.
  struct Variant {
    Problem problem;
    bool hard = false, appends = false;
    int rows = 0;
    std::int64_t with_unit = 0;  // of the rows, those that are not zero
    std::vector<std::int64_t> row_numbers;
    DeviceMemory device_rows, reference, reference_lse, units;
  };

  // What a call is handed beside its tensors, on the device.
  struct DeviceOperand {
    Role role;
    Strides strides;
    DeviceMemory memory;
  };
  using DeviceOperands = std::vector<DeviceOperand>;

  CudaTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const Problem& problem,
            const Effort& effort);
  Status set_up(const DeviceSpec& spec, int most_sets);
  Status fill_inputs();
  Status poison_unused();
  Status copy(const TrialOperands& operands, DeviceOperands* copied);
  Status shrink();
  Status allocate_outputs();
  Status choose_sets(const DeviceSpec& spec, int most_sets);
  Status check_with_memory(const CudaKernel& kernel, const Variant& variant, CheckResult* result,
                           std::int64_t* damaged);
  Status time_once(const CudaKernel& kernel, int samples, std::vector<double>* microseconds);
  Status prepare(const Problem& problem, Variant* variant);
  void leave_out_empty(Variant* variant) const;
  const DeviceMemory& queries(const Variant& variant) const { return variant.hard ? hard_q_ : q_; }
  Status check_variant(const CudaKernel& kernel, const Variant& variant, CheckResult* result, std::int64_t* damaged);
  static Comparison comparison(const Variant& variant, const CheckResult& result);
  Status poison();
  Status scan_outputs(const Problem& problem) const;
  Call call(const Problem& problem, const DeviceOperands& lists, const DeviceMemory& q, int set) const;
  CheckParams check_params(const Variant& variant) const;
  CUdeviceptr clock_memory() const override { return result_.address(); }

  GuardedWorkspace guarded_;                   // of verification
  std::unique_ptr<WorkspacePool> workspaces_;  // of the graphs that are timed: outgrown memory stays theirs
  const TrialLayout layout_;
  int sets_ = 1;
  const TrialLists verified_;
  DeviceOperands verified_lists_, timed_lists_, arrays_;
  DeviceMemory q_, hard_q_, k_, v_, out_, lse_, result_;
  NewTokensRun new_tokens_;
  Variant variants_[3];
};

}  // namespace gqa

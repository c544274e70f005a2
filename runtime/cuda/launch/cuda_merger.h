// cuda_merger.h: the kernel that merges states, loaded.
// Owns: what is loaded of jit/device/merge/merge_states.cuh, its arguments and its launches.
// Never: allocates or formats on the hot path.
// Threads: run() from many threads at once, on one stream or on several.
#pragma once

#include <memory>

#include "jit/device/merge/merge_params.h"
#include "runtime/cuda/launch/single_kernel.h"
#include "runtime/device.h"

namespace gqa {

// The launch that merges the call's parts from number *next on, as many as it takes, with what the launches before it
// made of the others; then *next is the first part that is left.
MergeParams next_merge(const MergeCall& call, int* next);
unsigned merge_blocks(const MergeParams& params);

class CudaMerger final : public LoadedProgram {
 public:
  explicit CudaMerger(std::unique_ptr<const SingleKernel> kernel) : kernel_(std::move(kernel)) {}
  // `binary`: of jit's merge_source().
  static Status load(const std::shared_ptr<CudaShared>& shared, const Binary& binary,
                     std::unique_ptr<LoadedProgram>* loaded);
  Status run(const ProgramCall& call) const override;

 private:
  std::unique_ptr<const SingleKernel> kernel_;
};

}  // namespace gqa

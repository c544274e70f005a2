// cuda_appender.h: the kernel that appends to a cache, loaded.
// Owns: what is loaded of jit/device/append/append.cuh, its launch before attention's on the same stream, and the
// memory between the two, which all programs of a device share: work on a stream is ordered.
// Never: allocates or formats on the hot path once warm.
// Threads: run() from many threads at once, on one stream or on several.
#pragma once

#include <memory>

#include "runtime/cuda/launch/single_kernel.h"
#include "runtime/device.h"

namespace gqa {

class CudaAppender final : public LoadedProgram {
 public:
  explicit CudaAppender(std::unique_ptr<const SingleKernel> kernel) : kernel_(std::move(kernel)) {}
  // `binary`: of jit's append_source().
  static Status load(const std::shared_ptr<CudaShared>& shared, const Binary& binary,
                     std::unique_ptr<LoadedProgram>* loaded);
  Status run(const ProgramCall& call) const override;
  // The same with a pool of the caller's: trials keep theirs apart from the users'.
  Status launch(const ProgramCall& call, WorkspacePool* intermediates) const;
  std::int64_t workspace_bytes(const Call& call) const override;

 private:
  std::unique_ptr<const SingleKernel> kernel_;
};

}  // namespace gqa

// single_kernel.h: a kernel that serves all calls of one kind, loaded: what merges states, what appends to a cache.
// Owns: its module, and the launch.
// Never: knows its arguments.
// Threads: launch() from many threads at once, with the context current.
#pragma once

#include <memory>

#include "runtime/cuda/launch/cuda_kernel.h"

namespace gqa {

class SingleKernel {
 public:
  static Status load(const std::shared_ptr<CudaShared>& shared, const Binary& binary, const char* entry_point,
                     std::unique_ptr<SingleKernel>* kernel);
  ~SingleKernel();
  SingleKernel(const SingleKernel&) = delete;
  SingleKernel& operator=(const SingleKernel&) = delete;

  CudaShared& shared() const { return *shared_; }
  Status launch(const LaunchShape& shape, CUstream stream, void** arguments) const;

 private:
  explicit SingleKernel(std::shared_ptr<CudaShared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<CudaShared> shared_;
  Module module_;
  CUfunction function_ = nullptr;
};

}  // namespace gqa

// single_kernel.cc: see single_kernel.h.
#include "runtime/cuda/launch/single_kernel.h"

#include "runtime/cuda/driver/capture.h"

namespace gqa {

Status SingleKernel::load(const std::shared_ptr<CudaShared>& shared, const Binary& binary, const char* entry_point,
                          std::unique_ptr<SingleKernel>* kernel) {
  const BesideCaptures here(shared->context);
  auto fresh = std::unique_ptr<SingleKernel>(new SingleKernel(shared));
  const Driver& driver = shared->context.driver();
  if (Status s = Module::load(driver, binary.cubin, binary.ptx, &fresh->module_); !s.ok()) return s;
  if (Status s = fresh->module_.function(entry_point, 0, &fresh->function_); !s.ok()) return s;
  *kernel = std::move(fresh);
  return {};
}

SingleKernel::~SingleKernel() {
  const BesideCaptures here(shared_->context);
  module_ = Module();
}

Status SingleKernel::launch(const LaunchShape& shape, CUstream stream, void** arguments) const {
  const CUresult result = launch_kernel(*shared_, function_, shape, stream, arguments);
  return result == CUDA_SUCCESS ? Status() : shared_->context.driver().error("cuLaunchKernel", result);
}

}  // namespace gqa

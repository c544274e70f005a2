// cuda_appender.cc: see cuda_appender.h.
#include "runtime/cuda/launch/cuda_appender.h"

#include "jit/codegen.h"
#include "runtime/append_plan.h"
#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

LaunchPlan needed_for(const Call& call) {
  LaunchPlan needed;
  needed.partial_floats = (append_bytes(call) + 3) / 4;
  return needed;
}

}  // namespace

Status CudaAppender::load(const std::shared_ptr<CudaShared>& shared, const Binary& binary,
                          std::unique_ptr<Appender>* appender) {
  const BesideCaptures here(shared->context);
  auto fresh = std::unique_ptr<CudaAppender>(new CudaAppender(shared));
  const Driver& driver = shared->context.driver();
  if (Status s = Module::load(driver, binary.cubin, binary.ptx, &fresh->module_); !s.ok()) return s;
  if (Status s = fresh->module_.function(kAppendEntryPoint, 0, &fresh->function_); !s.ok()) return s;
  *appender = std::move(fresh);
  return {};
}

CudaAppender::~CudaAppender() {
  const BesideCaptures here(shared_->context);
  module_ = Module();
}

std::int64_t CudaAppender::workspace_bytes(const Call& call) const {
  return WorkspaceMemory::bytes_for(needed_for(call));
}

Status CudaAppender::run(const Call& call, const LoadedProgram& program) const {
  const Current current(shared_->context);
  const auto stream = static_cast<CUstream>(call.stream);
  WorkspacePin between;  // until attention is queued, too
  if (Status s = shared_->intermediates->take(stream, needed_for(call), &between); !s.ok()) return s;
  AppendParams params = append_params(call, reinterpret_cast<char*>(between.workspace.partials));
  void* arguments[] = {&params};
  const LaunchShape shape = {append_blocks(params), kAppendThreads, 0};
  const CUresult result = launch_kernel(*shared_, function_, shape, stream, arguments);
  if (result != CUDA_SUCCESS) return shared_->context.driver().error("cuLaunchKernel", result);
  return program.run(attended_call(call, params));
}

}  // namespace gqa

// cuda_appender.cc: see cuda_appender.h.
#include "runtime/cuda/launch/cuda_appender.h"

#include "jit/codegen.h"
#include "runtime/call/append_plan.h"

namespace gqa {
namespace {

LaunchPlan needed_for(const Call& call) {
  LaunchPlan needed;
  needed.partial_floats = (append_bytes(call) + 3) / 4;
  return needed;
}

}  // namespace

Status CudaAppender::load(const std::shared_ptr<CudaShared>& shared, const Binary& binary,
                          std::unique_ptr<LoadedProgram>* loaded) {
  std::unique_ptr<SingleKernel> kernel;
  Status status = SingleKernel::load(shared, binary, kAppendEntryPoint, &kernel);
  if (status.ok()) *loaded = std::make_unique<CudaAppender>(std::move(kernel));
  return status;
}

std::int64_t CudaAppender::workspace_bytes(const Call& call) const {
  return WorkspaceMemory::bytes_for(needed_for(call));
}

Status CudaAppender::run(const ProgramCall& call) const { return launch(call, kernel_->shared().intermediates.get()); }

Status CudaAppender::launch(const ProgramCall& given, WorkspacePool* intermediates) const {
  const Call& call = *given.attention;
  const Current current(kernel_->shared().context);
  const auto stream = static_cast<CUstream>(call.stream);
  WorkspacePin between;  // until attention is queued, too
  if (Status s = intermediates->take(stream, needed_for(call), &between); !s.ok()) return s;
  AppendParams params = append_params(call, reinterpret_cast<char*>(between.workspace.partials));
  void* arguments[] = {&params};
  const LaunchShape shape = {append_blocks(params), kAppendThreads, 0};
  if (Status s = kernel_->launch(shape, stream, arguments); !s.ok()) return s;
  return given.then->run(attended_call(call, params));
}

}  // namespace gqa

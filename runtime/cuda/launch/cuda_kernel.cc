// cuda_kernel.cc: see cuda_kernel.h.
#include "runtime/cuda/launch/cuda_kernel.h"

#include <algorithm>
#include <atomic>

#include "jit/codegen.h"
#include "runtime/cuda/driver/capture.h"
#include "runtime/cuda/launch/launch_arguments.h"
#include "runtime/cuda/launch/launch_numbers.h"

namespace gqa {
namespace {

constexpr std::int64_t kMaxGrid = 2147483647;  // blocks in x, every compute capability

}  // namespace

AttentionParams params_of(const Call& call, const Candidate& candidate) {
  AttentionParams params = launch_numbers(call.problem, candidate).params;
  set_tensors(call, &params);
  return params;
}

CudaShared::~CudaShared() {
  if (workspaces == nullptr) return;
  const BesideCaptures here(context);
  workspaces.reset();
  intermediates.reset();
}

CudaKernel::CudaKernel(std::shared_ptr<CudaShared> shared, const Candidate& candidate)
    : shared_(std::move(shared)), candidate_(candidate) {
  static std::atomic<std::uint64_t> next{1};
  id_ = next++;
}

Status CudaKernel::load(const std::shared_ptr<CudaShared>& shared, const Problem& problem, const Candidate& candidate,
                        const Binary& binary, std::unique_ptr<CudaKernel>* kernel) {
  const BesideCaptures here(shared->context);
  const LaunchPlan launch = plan(problem, candidate);
  if (launch.brings(LaunchArgument::kMaps))
    if (Status s = can_map_tensors(shared->context.driver()); !s.ok()) return s;
  auto fresh = std::unique_ptr<CudaKernel>(new CudaKernel(shared, candidate));
  if (Status s = Module::load(shared->context.driver(), binary.cubin, binary.ptx, &fresh->module_); !s.ok()) return s;
  if (Status s = fresh->module_.function(kEntryPoint, launch.shared_memory, &fresh->function_); !s.ok()) return s;
  *kernel = std::move(fresh);
  return {};
}

CudaKernel::~CudaKernel() {
  const BesideCaptures here(shared_->context);
  module_ = Module();
}

Status CudaKernel::launch(const Call& call) const {
  const Current current(shared_->context);
  const LaunchNumbers& numbers = cached_numbers(id_, call.problem, candidate_);
  WorkspacePin pin;
  if (numbers.plan.needs_workspace()) {
    const Status status = shared_->workspaces->take(static_cast<CUstream>(call.stream), numbers.plan, &pin);
    if (!status.ok()) return status;
  }
  return launch(call, numbers, pin.workspace);
}

Status CudaKernel::launch(const Call& call, const Workspace& workspace) const {
  return launch(call, cached_numbers(id_, call.problem, candidate_), workspace);
}

unsigned grid_of(const LaunchPlan& plan, int sms) {
  if (!plan.persistent) return static_cast<unsigned>(plan.blocks);
  const std::int64_t wanted = plan.clusters > 0 ? plan.clusters : (plan.blocks + plan.resident - 1) / plan.resident;
  const std::int64_t most = std::max(1, sms / plan.cluster);
  return static_cast<unsigned>(std::min(wanted, most) * plan.resident * plan.cluster);
}

Status CudaKernel::launch(const Call& call, const LaunchNumbers& numbers, const Workspace& workspace) const {
  if (numbers.plan.blocks > kMaxGrid)
    return {Code::kSize, "the call needs " + std::to_string(numbers.plan.blocks) + " thread blocks, at most " +
                             std::to_string(kMaxGrid) + " can be launched; split the batch"};
  if (call.problem.q_packed() && call.q_rows == 0) return {};  // nobody has a query
  const Driver& driver = shared_->context.driver();
  LaunchArguments arguments;
  arguments.params = numbers.params;
  set_tensors(call, &arguments.params);
  arguments.params.partials = workspace.partials;
  arguments.params.counters = workspace.counters;
  if (Status s = arguments.add(driver, call, numbers.plan); !s.ok()) return s;
  const CUresult result = launch(numbers.plan, static_cast<CUstream>(call.stream), arguments.data());
  return result == CUDA_SUCCESS ? Status() : driver.error("cuLaunchKernel", result);
}

CUresult CudaKernel::launch(const LaunchPlan& plan, CUstream stream, void** arguments) const {
  const LaunchShape shape = {grid_of(plan, shared_->sms), static_cast<unsigned>(plan.threads),
                             static_cast<unsigned>(plan.shared_memory)};
  return launch_kernel(*shared_, function_, shape, stream, arguments);
}

CUresult launch_kernel(const CudaShared& shared, CUfunction function, const LaunchShape& shape, CUstream stream,
                       void** arguments) {
  const Driver& driver = shared.context.driver();
  if (!shared.early_start || driver.cuLaunchKernelEx == nullptr)
    return driver.cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1, shape.shared_memory, stream,
                                 arguments, nullptr);
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config = {shape.blocks, 1, 1, shape.threads, 1, 1, shape.shared_memory, stream, &early, 1};
  return driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
}

}  // namespace gqa

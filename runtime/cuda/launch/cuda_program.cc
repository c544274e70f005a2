// cuda_program.cc: see cuda_program.h.
#include "runtime/cuda/launch/cuda_program.h"

#include <algorithm>
#include <array>

#include "runtime/call/append_plan.h"
#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

constexpr std::size_t kMostArguments = 128;
constexpr std::int64_t kMaxBlockGrid = 2147483647;  // blocks in x, every compute capability
constexpr std::int64_t kPieceBytes = 256;           // what pieces of the memory between kernels are aligned to

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

Call call_of(const FixedAttention& fixed) {
  Call call;
  call.problem = fixed.problem;
  call.scale = fixed.scale;
  call.slots = fixed.slots;
  for (std::size_t at = 0; at < kFixedRoles.size(); ++at) call.strides(kFixedRoles[at]) = fixed.strides[at];
  return call;
}

}  // namespace

CudaProgram::CudaProgram(std::shared_ptr<CudaShared> shared) : shared_(std::move(shared)), id_(next_id()) {}

CudaProgram::~CudaProgram() {
  const BesideCaptures here(shared_->context);
  steps_.clear();
}

Status CudaProgram::load(const std::shared_ptr<CudaShared>& shared, const Program& program,
                         const std::vector<Binary>& binaries, std::unique_ptr<LoadedProgram>* loaded) {
  const BesideCaptures here(shared->context);
  auto fresh = std::unique_ptr<CudaProgram>(new CudaProgram(shared));
  fresh->between_.partial_floats = program.bytes_between / 4;
  for (const Step& step : program.steps) {
    LoadedStep& made = fresh->steps_.emplace_back();
    made.arguments = step.arguments;
    const Binary& binary = binaries[step.source];
    const Status status = step.attention() != nullptr ? fresh->load_attention(*step.attention(), binary, &made)
                                                      : fresh->load_block(step, binary, &made);
    if (!status.ok()) return status;
  }
  *loaded = std::move(fresh);
  return {};
}

Status CudaProgram::load_block(const Step& step, const Binary& binary, LoadedStep* loaded) {
  const TileLaunch& block = std::get<TileLaunch>(step.launch);
  loaded->block = block;
  loaded->partials = between_.partial_floats * 4;
  between_.partial_floats += (block.partial_floats * 4 + kPieceBytes - 1) / kPieceBytes * kPieceBytes / 4;
  between_.counters = std::max(between_.counters, block.counters);
  if (block.blocks > kMaxBlockGrid)
    return {Code::kSize, "a kernel needs " + std::to_string(block.blocks) + " thread blocks, at most " +
                             std::to_string(kMaxBlockGrid) + " can be launched; split the graph"};
  if (step.arguments.size() + 2 > kMostArguments)
    return {Code::kSize, "a kernel takes " + std::to_string(step.arguments.size()) + " tensors, at most " +
                             std::to_string(kMostArguments - 2) + " can be given; split the graph"};
  if (Status s = Module::load(shared_->context.driver(), binary.cubin, binary.ptx, &loaded->module); !s.ok()) return s;
  return loaded->module.function(kTileEntryPoint, block.shared_memory, &loaded->function);
}

Status CudaProgram::load_attention(const AttentionStep& step, const Binary& binary, LoadedStep* loaded) const {
  loaded->fixed = step.fixed.has_value();
  if (step.fixed) loaded->call = call_of(*step.fixed);
  return CudaKernel::load(shared_, step.problem, step.candidate, binary, &loaded->attention);
}

void* CudaProgram::Addresses::of(const TensorPlace& place) const {
  switch (place.kind) {
    case TensorPlace::Kind::kInput:
      return const_cast<void*>(call.inputs[place.index]);  // kernels read it only
    case TensorPlace::Kind::kOutput:
      return call.outputs[place.index];
    default:
      return between + place.index;
  }
}

Status CudaProgram::run(const ProgramCall& call) const {
  if (const CudaKernel* kernel = attention()) return kernel->launch(*call.attention);
  const Current current(shared_->context);
  return launch(call, shared_->intermediates.get(), shared_->workspaces.get());
}

bool CudaProgram::appends(const Call& call) const {
  const CudaKernel* kernel = attention();
  return kernel != nullptr && kernel->plan_of(call.problem).brings(LaunchArgument::kTokens) && is_plain_append(call);
}

std::int64_t CudaProgram::workspace_bytes(const Call& call) const {
  const CudaKernel* kernel = attention();
  return kernel != nullptr ? WorkspaceMemory::bytes_for(kernel->plan_of(call.problem)) : 0;
}

Status CudaProgram::launch(const ProgramCall& call, WorkspacePool* intermediates, WorkspacePool* partials) const {
  const auto stream = static_cast<CUstream>(call.stream);
  WorkspacePin memory;
  if (between_.needs_workspace())
    if (Status s = intermediates->take(stream, between_, &memory); !s.ok()) return s;
  const Addresses at = {call, reinterpret_cast<char*>(memory.workspace.partials), memory.workspace.counters};
  for (const LoadedStep& step : steps_) {
    const Status status =
        step.attention != nullptr ? launch_attention(step, at, call.stream, partials) : launch_block(step, at, stream);
    if (!status.ok()) return status;
  }
  return {};
}

Status CudaProgram::launch_attention(const LoadedStep& step, const Addresses& at, void* stream,
                                     WorkspacePool* partials) {
  const CudaKernel& kernel = *step.attention;
  Call call = step.call;
  for (std::size_t i = 0; i < kFixedRoles.size(); ++i) call.place(kFixedRoles[i], at.of(step.arguments[i]));
  call.stream = stream;
  const LaunchPlan& needed = kernel.plan_of(call.problem);
  WorkspacePin pin;
  if (needed.needs_workspace())
    if (Status s = partials->take(static_cast<CUstream>(stream), needed, &pin); !s.ok()) return s;
  return kernel.launch(call, pin.workspace);
}

Status CudaProgram::launch_block(const LoadedStep& step, const Addresses& at, CUstream stream) const {
  std::array<void*, kMostArguments> addresses, arguments;
  std::size_t count = 0;
  const auto give = [&](void* address) {
    addresses[count] = address;
    arguments[count] = &addresses[count];
    ++count;
  };
  for (const TensorPlace& place : step.arguments) give(at.of(place));
  if (step.block.counters > 0) {
    give(at.between + step.partials);
    give(at.counters);
  }
  const LaunchShape shape = {static_cast<unsigned>(step.block.blocks), static_cast<unsigned>(step.block.threads),
                             static_cast<unsigned>(step.block.shared_memory)};
  const CUresult result = launch_kernel(*shared_, step.function, shape, stream, arguments.data());
  return result == CUDA_SUCCESS ? Status() : shared_->context.driver().error("cuLaunchKernel", result);
}

}  // namespace gqa

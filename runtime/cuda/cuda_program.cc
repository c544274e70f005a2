// cuda_program.cc: see cuda_program.h.
#include "runtime/cuda/cuda_program.h"

#include <algorithm>
#include <array>

#include "jit/codegen.h"
#include "runtime/workload/program_reference.h"

namespace gqa {
namespace {

constexpr std::size_t kMostArguments = 128;
constexpr std::int64_t kMaxTileGrid = 2147483647;  // blocks in x, every compute capability
constexpr std::int64_t kPieceBytes = 256;          // what tensors between kernels are aligned to

std::size_t index(int value) { return static_cast<std::size_t>(value); }

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

// Of k where it lies transposed, row steps along head_dim.
Strides strides_of(const AttentionView& view, bool transposed) {
  return {view.batch, transposed ? view.column : view.row, view.head};
}

Call call_of(const AttentionForm& form) {
  Call call;
  call.problem = form.problem;
  call.scale = static_cast<float>(softmax_scale(form));
  call.q_strides = strides_of(form.q, false);
  call.k_strides = strides_of(form.k, form.problem.keys_transposed);
  call.v_strides = strides_of(form.v, false);
  call.out_strides = strides_of(form.out, false);
  return call;
}

// The program's tensor that a tensor of the kernel's own graph is.
int program_tensor(const PlannedKernel& kernel, int tensor) {
  const std::vector<int>& inputs = kernel.graph.inputs();
  const auto input = std::find(inputs.begin(), inputs.end(), tensor);
  if (input != inputs.end()) return kernel.inputs[static_cast<std::size_t>(input - inputs.begin())];
  const std::vector<int> outputs = kernel.graph.outputs();
  const auto output = std::find(outputs.begin(), outputs.end(), tensor);
  return kernel.outputs[static_cast<std::size_t>(output - outputs.begin())];
}

}  // namespace

CudaProgram::CudaProgram(std::shared_ptr<CudaShared> shared) : shared_(std::move(shared)), id_(next_id()) {}

CudaProgram::~CudaProgram() {
  const Current current(shared_->context);
  steps_.clear();
}

Status CudaProgram::load(const std::shared_ptr<CudaShared>& shared, const KernelPlan& plan,
                         const std::vector<Binary>& kernels, std::unique_ptr<LoadedProgram>* program) {
  const Current current(shared->context);
  auto fresh = std::unique_ptr<CudaProgram>(new CudaProgram(shared));
  const std::vector<Place> places = fresh->places_of(plan.program);
  for (std::size_t at = 0; at < plan.kernels.size(); ++at) {
    const PlannedKernel& kernel = plan.kernels[at];
    Step& step = fresh->steps_.emplace_back();
    for (const int tensor : kernel.inputs) step.arguments.push_back(places[index(tensor)]);
    for (const int tensor : kernel.outputs) step.arguments.push_back(places[index(tensor)]);
    const Status status = kernel.family ? fresh->load_family(kernel, kernels[at], places, &step)
                                        : fresh->load_tile(kernel, kernels[at], &step);
    if (!status.ok()) return status;
  }
  *program = std::move(fresh);
  return {};
}

// Tensors that are neither input nor output of the program lie one after another in the memory between kernels.
std::vector<CudaProgram::Place> CudaProgram::places_of(const KernelGraph& program) {
  std::vector<Place> places(program.tensors().size(), Place{Place::Kind::kBetween, -1});
  const std::vector<int>& inputs = program.inputs();
  const std::vector<int> outputs = program.outputs();
  for (std::size_t at = 0; at < inputs.size(); ++at)
    places[index(inputs[at])] = {Place::Kind::kInput, static_cast<std::int64_t>(at)};
  for (std::size_t at = 0; at < outputs.size(); ++at)
    places[index(outputs[at])] = {Place::Kind::kOutput, static_cast<std::int64_t>(at)};
  for (std::size_t tensor = 0; tensor < places.size(); ++tensor) {
    if (places[tensor].index < 0) places[tensor].index = set_aside(tensor_bytes(program.tensors()[tensor].spec));
  }
  return places;
}

// So many bytes more between the kernels: where they begin.
std::int64_t CudaProgram::set_aside(std::int64_t bytes) {
  const std::int64_t begin = between_.partial_floats * 4;
  between_.partial_floats += (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes / 4;
  return begin;
}

Status CudaProgram::load_tile(const PlannedKernel& kernel, const Binary& binary, Step* step) {
  if (Status s = check_tile(kernel.graph); !s.ok()) return s;
  step->tile = tile_launch(kernel.graph);
  step->partials = set_aside(step->tile.partial_floats * 4);
  between_.counters = std::max(between_.counters, step->tile.counters);
  if (step->tile.blocks > kMaxTileGrid)
    return {Code::kSize, "a kernel needs " + std::to_string(step->tile.blocks) + " thread blocks, at most " +
                             std::to_string(kMaxTileGrid) + " can be launched; split the graph"};
  if (step->arguments.size() + 2 > kMostArguments)
    return {Code::kSize, "a kernel takes " + std::to_string(step->arguments.size()) + " tensors, at most " +
                             std::to_string(kMostArguments - 2) + " can be given; split the graph"};
  const Driver& driver = shared_->context.driver();
  if (Status s = Module::load(driver, binary.cubin, binary.ptx, &step->module); !s.ok()) return s;
  return step->module.function(kTileEntryPoint, step->tile.shared_memory, &step->function);
}

Status CudaProgram::load_family(const PlannedKernel& kernel, const Binary& binary, const std::vector<Place>& places,
                                Step* step) const {
  const AttentionForm& form = kernel.family->form;
  const auto place = [&](const AttentionView& view) { return places[index(program_tensor(kernel, view.tensor))]; };
  step->call = call_of(form);
  step->q = place(form.q);
  step->k = place(form.k);
  step->v = place(form.v);
  step->out = place(form.out);
  return CudaKernel::load(shared_, form.problem, kernel.family->candidate, binary, &step->family);
}

void* CudaProgram::Addresses::of(const Place& place) const {
  switch (place.kind) {
    case Place::Kind::kInput:
      return const_cast<void*>(call.inputs[place.index]);  // kernels read it only
    case Place::Kind::kOutput:
      return call.outputs[place.index];
    default:
      return between + place.index;
  }
}

Status CudaProgram::launch(const ProgramCall& call) const {
  const Current current(shared_->context);
  return launch(call, shared_->intermediates.get(), shared_->workspaces.get());
}

Status CudaProgram::launch(const ProgramCall& call, WorkspacePool* intermediates, WorkspacePool* partials) const {
  const auto stream = static_cast<CUstream>(call.stream);
  WorkspacePin memory;
  if (between_.needs_workspace())
    if (Status s = intermediates->take(stream, between_, &memory); !s.ok()) return s;
  const Addresses at = {call, reinterpret_cast<char*>(memory.workspace.partials), memory.workspace.counters};
  for (const Step& step : steps_) {
    const Status status =
        step.family != nullptr ? launch_family(step, at, call.stream, partials) : launch_tile(step, at, stream);
    if (!status.ok()) return status;
  }
  return {};
}

Status CudaProgram::launch_family(const Step& step, const Addresses& at, void* stream, WorkspacePool* partials) {
  const auto& kernel = static_cast<const CudaKernel&>(*step.family);
  Call call = step.call;
  call.q = at.of(step.q);
  call.k = at.of(step.k);
  call.v = at.of(step.v);
  call.out = at.of(step.out);
  call.stream = stream;
  const LaunchPlan& needed = kernel.plan_of(call.problem);
  WorkspacePin pin;
  if (needed.needs_workspace())
    if (Status s = partials->take(static_cast<CUstream>(stream), needed, &pin); !s.ok()) return s;
  return kernel.launch(call, pin.workspace);
}

Status CudaProgram::launch_tile(const Step& step, const Addresses& at, CUstream stream) const {
  std::array<void*, kMostArguments> addresses, arguments;
  std::size_t count = 0;
  const auto give = [&](void* address) {
    addresses[count] = address;
    arguments[count] = &addresses[count];
    ++count;
  };
  for (const Place& place : step.arguments) give(at.of(place));
  if (step.tile.counters > 0) {
    give(at.between + step.partials);
    give(at.counters);
  }
  const LaunchShape shape = {static_cast<unsigned>(step.tile.blocks), static_cast<unsigned>(step.tile.threads),
                             static_cast<unsigned>(step.tile.shared_memory)};
  const CUresult result = launch_kernel(*shared_, step.function, shape, stream, arguments.data());
  return result == CUDA_SUCCESS ? Status() : shared_->context.driver().error("cuLaunchKernel", result);
}

}  // namespace gqa

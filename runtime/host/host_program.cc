// host_program.cc: see host_program.h.
#include "runtime/host/host_program.h"

#include <atomic>
#include <map>
#include <new>
#include <utility>

#include "runtime/host/parallel.h"
#include "runtime/host/plain_operator.h"
#include "runtime/verify/tensor_bytes.h"

namespace gqa {
namespace {

constexpr std::int64_t kAlign = 64;

Status broken_plan(const std::string& what) { return {Code::kInternal, "a kernel plan " + what}; }

}  // namespace

// Reads a plan into stages: one an operator of each kernel's graph.
class HostProgram::Loader {
 public:
  Loader(const KernelPlan& plan, HostProgram* program) : plan_(plan), program_(*program) {}

  Status run() {
    const KernelGraph& graph = plan_.program;
    for (std::size_t at = 0; at < graph.inputs().size(); ++at)
      places_[graph.inputs()[at]] = {Where::kInput, static_cast<std::int64_t>(at)};
    const std::vector<int> outputs = graph.outputs();
    for (std::size_t at = 0; at < outputs.size(); ++at)
      outputs_[outputs[at]] = {Where::kOutput, static_cast<std::int64_t>(at)};
    for (const PlannedKernel& kernel : plan_.kernels) {
      if (Status status = read(kernel); !status.ok()) return status;
    }
    for (const int output : outputs) {
      if (!places_.count(output)) return broken_plan("makes no output " + graph.tensor(output).name);
    }
    return {};
  }

 private:
  Place between(const TensorSpec& spec) {
    const Place place = {Where::kBetween, program_.bytes_between_};
    program_.bytes_between_ += (tensor_bytes(spec) + kAlign - 1) / kAlign * kAlign;
    return place;
  }

  // A result of the program: where it lies from now on.
  Place make(int tensor) {
    const auto output = outputs_.find(tensor);
    return places_[tensor] = output != outputs_.end() ? output->second : between(plan_.program.spec(tensor));
  }

  Status read(const PlannedKernel& kernel) {
    if (kernel.outputs.empty()) return {};  // nobody reads what it makes
    const KernelGraph& graph = kernel.graph;
    const std::vector<int> outputs = graph.outputs();
    if (kernel.inputs.size() != graph.inputs().size() || kernel.outputs.size() != outputs.size())
      return broken_plan("names " + std::to_string(kernel.inputs.size()) + " inputs and " +
                         std::to_string(kernel.outputs.size()) + " outputs of a kernel that has " +
                         std::to_string(graph.inputs().size()) + " and " + std::to_string(outputs.size()));
    std::map<int, Place> own;  // of the kernel's graph
    for (std::size_t at = 0; at < kernel.inputs.size(); ++at) {
      const auto place = places_.find(kernel.inputs[at]);
      if (place == places_.end()) return broken_plan("reads a tensor before it is made");
      own[graph.inputs()[at]] = place->second;
    }
    for (std::size_t at = 0; at < outputs.size(); ++at) own[outputs[at]] = make(kernel.outputs[at]);
    for (const KernelNode& node : graph.nodes()) {
      for (const int output : node.outputs) {
        if (!own.count(output)) own[output] = between(graph.spec(output));
      }
      if (Status status = add_stage(graph, node, own); !status.ok()) return status;
    }
    return {};
  }

  Status add_stage(const KernelGraph& graph, const KernelNode& node, const std::map<int, Place>& places) {
    Stage stage;
    for (const int input : node.inputs) stage.operands.push_back(places.at(input));
    for (const int output : node.outputs) stage.results.push_back(places.at(output));
    PlainOperator plain;
    if (node.block) {
      plain.block = *node.block;
      for (const int input : node.inputs) plain.operands.push_back(graph.spec(input));
    } else if (Status status = plain_operator(graph, node, program_.threads_, &plain); !status.ok()) {
      return status;
    }
    if (plain.constant) {
      stage.operands = {{Where::kConstant, static_cast<std::int64_t>(program_.constants_.size())}};
      program_.constants_.push_back(*plain.constant);
    }
    stage.tiles = tile_program(plain.block, plain.operands);
    stage.blocks = blocks(plain.block);
    program_.most_operands_ = std::max(program_.most_operands_, stage.operands.size());
    program_.most_results_ = std::max(program_.most_results_, stage.results.size());
    program_.stages_.push_back(std::move(stage));
    return {};
  }

  const KernelPlan& plan_;
  HostProgram& program_;
  std::map<int, Place> places_;   // of the program's tensors made so far
  std::map<int, Place> outputs_;  // of its outputs
};

Status HostProgram::load(const KernelPlan& plan, const HostOps& ops, int threads,
                         std::unique_ptr<HostProgram>* program) {
  std::unique_ptr<HostProgram> made(new HostProgram(ops, threads));
  Status status = Loader(plan, made.get()).run();
  if (status.ok()) *program = std::move(made);
  return status;
}

std::unique_ptr<HostProgram::Memory> HostProgram::take_memory() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      std::unique_ptr<Memory> memory = std::move(spare_.back());
      spare_.pop_back();
      return memory;
    }
  }
  auto memory = std::make_unique<Memory>();
  memory->bytes.resize(static_cast<std::size_t>(bytes_between_ + kAlign));
  memory->operands.resize(most_operands_);
  memory->results.resize(most_results_);
  return memory;
}

void HostProgram::give_back(std::unique_ptr<Memory> memory) const {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(memory));
}

// False where memory for tiles ran out.
bool HostProgram::run(const Stage& stage, const ProgramCall& call, Memory* memory) const {
  for (std::size_t at = 0; at < stage.operands.size(); ++at) {
    const Place& place = stage.operands[at];
    const auto index = static_cast<std::size_t>(place.index);
    memory->operands[at] = place.where == Where::kInput      ? static_cast<const std::byte*>(call.inputs[index])
                           : place.where == Where::kOutput   ? static_cast<const std::byte*>(call.outputs[index])
                           : place.where == Where::kConstant ? reinterpret_cast<const std::byte*>(&constants_[index])
                                                             : memory->bytes.data() + index;
  }
  for (std::size_t at = 0; at < stage.results.size(); ++at) {
    const Place& place = stage.results[at];
    const auto index = static_cast<std::size_t>(place.index);
    memory->results[at] =
        place.where == Where::kOutput ? static_cast<std::byte*>(call.outputs[index]) : memory->bytes.data() + index;
  }
  const TileTensors tensors = {memory->operands.data(), memory->results.data()};
  std::atomic<bool> fits = true;
  parallel_for(stage.blocks, threads_, [&](std::int64_t block) {
    if (TileWorker* worker = TileWorker::ready(stage.tiles))
      run_block(stage.tiles, ops_, tensors, block, worker);
    else
      fits = false;
  });
  return fits;
}

bool HostProgram::run_all(const ProgramCall& call, Memory* memory) const {
  for (const Stage& stage : stages_) {
    if (!run(stage, call, memory)) return false;
  }
  return true;
}

Status HostProgram::launch(const ProgramCall& call) const {
  try {
    std::unique_ptr<Memory> memory = take_memory();
    const bool fits = run_all(call, memory.get());
    give_back(std::move(memory));
    if (fits) return {};
  } catch (const std::bad_alloc&) {
  }
  return {Code::kOutOfMemory, "host memory ran out for the tensors and tiles of a program of " +
                                  std::to_string(stages_.size()) + " kernels: expected " +
                                  std::to_string(bytes_between_) + " bytes and some for tiles"};
}

}  // namespace gqa

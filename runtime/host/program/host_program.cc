// host_program.cc: see host_program.h.
#include "runtime/host/program/host_program.h"

#include <atomic>
#include <map>
#include <new>
#include <utility>

#include "runtime/host/program/plain_operator.h"
#include "runtime/parallel.h"
#include "runtime/verify/tensor_bytes.h"
#include "search/graph/ir/graph_text.h"

namespace gqa {
namespace {

constexpr std::int64_t kAlign = 64;

Status broken_program(const std::string& what) { return {Code::kInternal, "a program " + what}; }

}  // namespace

// Reads a program into stages: one an operator of each step's graph.
class HostProgram::Loader {
 public:
  Loader(const Program& program, HostProgram* loaded) : program_(program), loaded_(*loaded) {}

  Status run() {
    loaded_.bytes_between_ = program_.bytes_between;
    for (const Step& step : program_.steps) {
      if (Status status = read(step); !status.ok()) return status;
    }
    return {};
  }

 private:
  // What only operators of one step read.
  TensorPlace between(const TensorSpec& spec) {
    const TensorPlace place = {TensorPlace::Kind::kBetween, loaded_.bytes_between_};
    loaded_.bytes_between_ += (tensor_bytes(spec) + kAlign - 1) / kAlign * kAlign;
    return place;
  }

  Status read(const Step& step) {
    KernelGraph graph;
    if (Status status = parse(program_.sources[step.source].text, &graph); !status.ok()) return status;
    const std::vector<int> outputs = graph.outputs();
    const std::size_t tensors = graph.inputs().size() + outputs.size();
    if (step.arguments.size() != tensors)
      return broken_program("gives " + std::to_string(step.arguments.size()) + " tensors to a kernel of " +
                            std::to_string(tensors));
    std::map<int, TensorPlace> places;  // of the kernel's graph
    std::size_t next = 0;
    for (const int input : graph.inputs()) places[input] = step.arguments[next++];
    for (const int output : outputs) places[output] = step.arguments[next++];
    for (const KernelNode& node : graph.nodes()) {
      for (const int output : node.outputs) {
        if (!places.count(output)) places[output] = between(graph.spec(output));
      }
      if (Status status = add_stage(graph, node, places); !status.ok()) return status;
    }
    return {};
  }

  Status add_stage(const KernelGraph& graph, const KernelNode& node, const std::map<int, TensorPlace>& places) {
    Stage stage;
    for (const int input : node.inputs) stage.operands.push_back({places.at(input)});
    for (const int output : node.outputs) stage.results.push_back(places.at(output));
    PlainOperator plain;
    if (node.block) {
      plain.block = *node.block;
      for (const int input : node.inputs) plain.operands.push_back(graph.spec(input));
    } else if (Status status = plain_operator(graph, node, loaded_.threads_, &plain); !status.ok()) {
      return status;
    }
    if (plain.constant) {
      stage.operands = {{{}, static_cast<int>(loaded_.constants_.size())}};
      loaded_.constants_.push_back(*plain.constant);
    }
    stage.tiles = tile_program(plain.block, plain.operands);
    stage.blocks = blocks(plain.block);
    loaded_.most_operands_ = std::max(loaded_.most_operands_, stage.operands.size());
    loaded_.most_results_ = std::max(loaded_.most_results_, stage.results.size());
    loaded_.stages_.push_back(std::move(stage));
    return {};
  }

  const Program& program_;
  HostProgram& loaded_;
};

Status HostProgram::load(const Program& program, const HostOps& ops, int threads,
                         std::unique_ptr<HostProgram>* loaded) {
  std::unique_ptr<HostProgram> made(new HostProgram(ops, threads));
  Status status = Loader(program, made.get()).run();
  if (status.ok()) *loaded = std::move(made);
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
bool HostProgram::run_stage(const Stage& stage, const ProgramCall& call, Memory* memory) const {
  for (std::size_t at = 0; at < stage.operands.size(); ++at) {
    const auto [place, constant] = stage.operands[at];
    const auto index = static_cast<std::size_t>(place.index);
    memory->operands[at] =
        constant >= 0 ? reinterpret_cast<const std::byte*>(&constants_[static_cast<std::size_t>(constant)])
        : place.kind == TensorPlace::Kind::kInput  ? static_cast<const std::byte*>(call.inputs[index])
        : place.kind == TensorPlace::Kind::kOutput ? static_cast<const std::byte*>(call.outputs[index])
                                                   : memory->bytes.data() + index;
  }
  for (std::size_t at = 0; at < stage.results.size(); ++at) {
    const TensorPlace& place = stage.results[at];
    const auto index = static_cast<std::size_t>(place.index);
    memory->results[at] = place.kind == TensorPlace::Kind::kOutput ? static_cast<std::byte*>(call.outputs[index])
                                                                   : memory->bytes.data() + index;
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
    if (!run_stage(stage, call, memory)) return false;
  }
  return true;
}

Status HostProgram::run(const ProgramCall& call) const {
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

// programs.cc: see programs.h.
#include "runtime/workload/programs.h"

#include <algorithm>

#include "jit/codegen.h"
#include "runtime/verify/tensor_bytes.h"
#include "search/families/resources.h"
#include "search/graph/attention/attention_program.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/ir/graph_text.h"
#include "search/version.h"

namespace gqa {
namespace {

constexpr std::int64_t kPieceBytes = 256;  // what tensors between kernels are aligned to

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// What of a launch is the kernel's own; splits and order are the launch's.
std::string launch_text(const Problem& problem, const Candidate& candidate) {
  const CandidateShape shape = shape_of(candidate);
  const LaunchPlan launch = plan(problem, candidate);
  return "attention threads=" + std::to_string(launch.threads) + " smem=" + std::to_string(launch.shared_memory) +
         " persistent=" + std::to_string(launch.persistent) + " resident=" + std::to_string(launch.resident) +
         " cluster=" + std::to_string(launch.cluster) + " m=" + std::to_string(shape.rows) +
         " n=" + std::to_string(shape.keys) + " pack=" + std::to_string(shape.pack) +
         " maps=" + std::to_string(launch.brings(LaunchArgument::kMaps)) +
         (launch.brings(LaunchArgument::kCache) ? " cache=1" : "") +
         (launch.brings(LaunchArgument::kTokens) ? " tokens=1" : "") +
         (launch.brings(LaunchArgument::kScores) ? " scores=1" : "");
}

std::string launch_text(const TileLaunch& launch) {
  return "block grid=" + std::to_string(launch.blocks) + " threads=" + std::to_string(launch.threads) +
         " smem=" + std::to_string(launch.shared_memory) + " partials=" + std::to_string(launch.partial_floats) +
         " counters=" + std::to_string(launch.counters);
}

// ---- graphs

// Where k lies transposed, its row steps along head_dim.
Strides strides_of(const AttentionView& view, bool transposed) {
  return {view.batch, transposed ? view.column : view.row, view.head};
}

FixedAttention fixed(const AttentionForm& form) {
  FixedAttention made;
  made.problem = form.problem;
  made.scale = form.scale;
  made.slots = form.slots;
  made.strides = {strides_of(form.q, false), strides_of(form.k, form.problem.keys_transposed()),
                  strides_of(form.v, false), strides_of(form.out, false)};
  return made;
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

class Planner {
 public:
  Planner(const KernelPlan& plan, DeviceKind kind) : plan_(plan), kind_(kind) {}

  Status run(Program* program) {
    made_.text = to_text(plan_.program);
    place_tensors();
    for (const PlannedKernel& kernel : plan_.kernels) {
      if (Status status = add(kernel); !status.ok()) return status;
    }
    *program = std::move(made_);
    return {};
  }

 private:
  // Tensors that are neither input nor output of the program lie one after another in the memory between the steps.
  void place_tensors() {
    const KernelGraph& graph = plan_.program;
    const std::vector<int>& inputs = graph.inputs();
    const std::vector<int> outputs = graph.outputs();
    places_.assign(graph.tensors().size(), TensorPlace{TensorPlace::Kind::kBetween, -1});
    for (std::size_t at = 0; at < inputs.size(); ++at)
      places_[index(inputs[at])] = {TensorPlace::Kind::kInput, static_cast<std::int64_t>(at)};
    for (std::size_t at = 0; at < outputs.size(); ++at)
      places_[index(outputs[at])] = {TensorPlace::Kind::kOutput, static_cast<std::int64_t>(at)};
    for (std::size_t tensor = 0; tensor < places_.size(); ++tensor) {
      if (places_[tensor].index >= 0) continue;
      places_[tensor].index = made_.bytes_between;
      const std::int64_t bytes = tensor_bytes(graph.tensors()[tensor].spec);
      made_.bytes_between += (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
    }
  }

  Status add(const PlannedKernel& kernel) {
    if (kernel.outputs.empty()) return {};  // nobody reads what it makes
    Step step;
    Source source;
    if (kind_ == DeviceKind::kHost) {
      source = {to_text(kernel.graph), std::string(kBlockFamily), "host", "graph: " + describe(kernel.graph),
                thread_text(kernel.graph)};
      add_arguments(kernel, &step);
    } else if (kernel.family) {
      add_attention(kernel, &step, &source);
    } else if (Status status = add_block(kernel, &step, &source); !status.ok()) {
      return status;
    }
    step.source = source_of(std::move(source));
    made_.steps.push_back(std::move(step));
    return {};
  }

  void add_arguments(const PlannedKernel& kernel, Step* step) const {
    for (const int tensor : kernel.inputs) step->arguments.push_back(places_[index(tensor)]);
    for (const int tensor : kernel.outputs) step->arguments.push_back(places_[index(tensor)]);
  }

  void add_attention(const PlannedKernel& kernel, Step* step, Source* source) const {
    const AttentionForm& form = kernel.family->form;
    const Candidate& candidate = kernel.family->candidate;
    for (const AttentionView* view : {&form.q, &form.k, &form.v, &form.out})
      step->arguments.push_back(places_[index(program_tensor(kernel, view->tensor))]);
    step->launch = AttentionStep{form.problem, candidate, fixed(form)};
    *source = {attention_source(form.problem, candidate), std::string(name(candidate)),
               launch_text(form.problem, candidate), to_text(form.problem), thread_text(kernel.graph)};
  }

  Status add_block(const PlannedKernel& kernel, Step* step, Source* source) const {
    if (Status status = check_tile(kernel.graph); !status.ok()) return status;
    add_arguments(kernel, step);
    const TileLaunch launch = tile_launch(kernel.graph);
    step->launch = launch;
    *source = {tile_source(kernel.graph), std::string(kBlockFamily), launch_text(launch),
               "graph: " + describe(kernel.graph), thread_text(kernel.graph)};
    return {};
  }

  std::size_t source_of(Source source) {
    const auto same = [&](const Source& other) { return other.text == source.text; };
    const auto at = std::find_if(made_.sources.begin(), made_.sources.end(), same);
    if (at != made_.sources.end()) return static_cast<std::size_t>(at - made_.sources.begin());
    made_.sources.push_back(std::move(source));
    return made_.sources.size() - 1;
  }

  const KernelPlan& plan_;
  const DeviceKind kind_;
  std::vector<TensorPlace> places_;  // of the plan's tensors
  Program made_;
};

}  // namespace

Program program_of(const Problem& problem, const Candidate& candidate, DeviceKind kind) {
  Program program;
  program.text = to_text(candidate);
  const bool host = kind == DeviceKind::kHost;
  program.sources = {{host ? to_text(attention_program(problem, candidate)) : attention_source(problem, candidate),
                      std::string(name(candidate)), host ? "host" : launch_text(problem, candidate), to_text(problem),
                      kernel_text(candidate)}};
  program.steps.emplace_back().launch = AttentionStep{problem, candidate, std::nullopt};
  return program;
}

Program program_of(Operation operation, DeviceKind kind) {
  const bool appends = operation == Operation::kAppend;
  const std::string family(appends ? kAppendFamily : kMergeFamily);
  Program program;
  program.text = family;
  if (kind == DeviceKind::kHost)
    program.sources = {{family, family, "host", "", ""}};
  else
    program.sources = {{appends ? append_source() : merge_source(), family, family,
                        appends ? "appending to a cache" : "merger of states", ""}};
  program.steps.emplace_back().launch = operation;
  return program;
}

Status program_of(const KernelPlan& plan, DeviceKind kind, Program* program) {
  return Planner(plan, kind).run(program);
}

}  // namespace gqa

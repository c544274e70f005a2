// host_programs.cc: programs of graphs on the host device, the search's first few for each graph; beside them the same
// attention as a call of gqa_run's, and Eigen's own product.
// Owns: the softmax attention of the documentation, a linear of 16 rows.
// Never: verifies; tests do.
// Threads: the device's; Eigen's product has one.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/host/program/host_program.h"
#include "runtime/parallel.h"
#include "runtime/verify/program_inputs.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/ir/graph_text.h"

namespace gqa {
namespace {

const std::string kAttention = R"(graph 1
q = input f16[2,256,64]
k = input f16[2,64,4096]
v = input f16[2,4096,64]
a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)";

const std::string kLinear = R"(graph 1
x = input f32[16,4096]
w = input f32[4096,4096]
y = matmul(x, w)
)";

// A program with memory for its run.
struct Loaded {
  std::unique_ptr<LoadedProgram> program;
  std::vector<TensorBytes> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

Status load(Device& device, const KernelGraph& graph, Loaded* loaded) {
  KernelPlan plan;
  const std::vector<KernelGraph> planned = thread_plans(graph, device.spec(), 1);
  if (planned.empty()) return {Code::kNoCandidate, "no thread plan for " + describe(graph)};
  if (Status status = plan_kernels(planned[0], &plan); !status.ok()) return status;
  Program program;
  if (Status status = program_of(plan, device.spec().kind, &program); !status.ok()) return status;
  for (const int input : graph.inputs()) {
    const TensorSpec& spec = graph.spec(input);
    loaded->tensors.emplace_back(static_cast<std::size_t>(tensor_bytes(spec)));
    const Workers workers = workers_of(Effort(0), device.spec().sms);
    InputNumbers(spec, loaded->tensors.size(), 0.25).fill(workers, loaded->tensors.back().data());
    loaded->inputs.push_back(loaded->tensors.back().data());
  }
  for (const int output : graph.outputs()) {
    loaded->tensors.emplace_back(static_cast<std::size_t>(tensor_bytes(graph.spec(output))));
    loaded->outputs.push_back(loaded->tensors.back().data());
  }
  return compile_and_load(device, program, &loaded->program);
}

void run_program(benchmark::State& state, Device& device, const KernelGraph& graph, double operations) {
  Loaded loaded;
  Status status = load(device, graph, &loaded);
  if (!status.ok()) return state.SkipWithError(status.message().c_str());
  for (auto _ : state) {
    status = loaded.program->run(ProgramCall{loaded.inputs.data(), loaded.outputs.data(), nullptr, nullptr});
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
  }
  state.SetLabel(describe(graph));
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}

void eigen_product(benchmark::State& state) {
  std::vector<float> a(16 * 4096, 1), b(4096 * 4096, 1), c(16 * 4096);
  const Product product = {a.data(), b.data(), c.data(), 16, 4096, 4096};
  for (auto _ : state) host_ops().multiply(product);
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * 16 * 4096 * 4096, benchmark::Counter::kIsIterationInvariantRate);
}

// The attention's own kernel for the same sizes, keys as gqa_run has them.
void attention_call(benchmark::State& state, Device& device) {
  const char* const kProblem = "b=2,hq=1,hk=1,sq=256,sk=4096,d=64,dtype=f16";
  Problem problem;
  Candidate candidate;
  Status status = parse(kProblem, &problem);
  if (status.ok()) status = parse("flash m=64 n=64 warps=4 stages=2 pack=1", &candidate);
  std::unique_ptr<LoadedProgram> loaded;
  std::unique_ptr<Trial> trial;
  const Program program = program_of(problem, candidate, device.spec().kind);
  if (status.ok()) status = compile_and_load(device, program, &loaded);
  if (status.ok()) status = compile_and_try(device, {problem}, Effort(60), &trial);
  std::vector<double> microseconds;
  for (auto _ : state) {
    if (status.ok()) status = trial->time(*loaded, 1, &microseconds);
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
    state.SetIterationTime(microseconds.back() * 1e-6);
  }
  state.SetLabel(to_text(candidate));
  state.counters["FLOP/s"] = benchmark::Counter(flops(problem), benchmark::Counter::kIsIterationInvariantRate);
}

Status add(Device& device, const std::string& name, const std::string& text, const std::string& config,
           double operations) {
  KernelGraph graph;
  if (Status status = parse(text, &graph); !status.ok()) return status;
  SearchResult result;
  SearchOptions options;
  options.config = config;
  options.most_programs = 24;
  if (Status status = superoptimize(graph, device.spec(), options, &result); !status.ok()) return status;
  for (std::size_t at = 0; at < result.programs.size(); ++at) {
    benchmark::RegisterBenchmark((name + "/" + std::to_string(at)).c_str(),
                                 [&device, program = result.programs[at].program.graph, operations](
                                     benchmark::State& state) { run_program(state, device, program, operations); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return {};
}

int run(int argc, char** argv) {
  std::unique_ptr<Device> device;
  Status status = open_host_device(0, &device);
  if (status.ok()) status = add(*device, "attention", kAttention, "attention", 4.0 * 2 * 256 * 4096 * 64);
  if (status.ok()) status = add(*device, "linear", kLinear, "", 2.0 * 16 * 4096 * 4096);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  benchmark::RegisterBenchmark("attention/call", [&](benchmark::State& state) { attention_call(state, *device); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("linear/eigen_one_thread", eigen_product)->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace gqa

int main(int argc, char** argv) { return gqa::run(argc, argv); }

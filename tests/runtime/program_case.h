// program_case.h: a user's graph run on the host, for tests.
// Owns: plans of a kernel an operator, inputs rounded to their types, a run with an instruction set and
// a number of threads.
// Never: asserts more than that what it built loads and runs.
// Threads: pure functions.
#pragma once

#include <gtest/gtest.h>

#include "runtime/host/host_spec.h"
#include "runtime/host/program/host_program.h"
#include "runtime/verify/tensor_bytes.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "tests/search/graph/graphs.h"

namespace gqa {

// A CPU of usual caches, whatever this one is: what is offered and planned is the same on every machine.
inline DeviceSpec host_spec(int threads = 2) { return host_spec("avx2", threads, {2 << 20, 32 << 20}); }

inline KernelPlan plan_of(const KernelGraph& graph) {
  KernelPlan plan;
  const std::vector<KernelGraph> planned = thread_plans(graph, host_spec(), 1);
  EXPECT_EQ(planned.size(), 1U) << to_text(graph);
  if (planned.empty()) return plan;
  const Status status = plan_kernels(planned[0], &plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

inline Program program_of_graph(const KernelGraph& graph) {
  Program program;
  const Status status = program_of(plan_of(graph), DeviceKind::kHost, &program);
  EXPECT_TRUE(status.ok()) << status.message();
  return program;
}

inline std::unique_ptr<HostProgram> host_program(const KernelGraph& graph, int threads = 2,
                                                 const HostOps& ops = host_ops()) {
  std::unique_ptr<HostProgram> program;
  const Status status = HostProgram::load(program_of_graph(graph), ops, threads, &program);
  EXPECT_TRUE(status.ok()) << status.message();
  return program;
}

// Normal numbers, rounded to the inputs' types.
inline std::vector<std::vector<double>> typed_inputs(const KernelGraph& graph, unsigned seed, double scale = 1) {
  auto inputs = random_inputs(graph, seed, scale);
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    for (double& value : inputs[at]) value = round_to(value, graph.spec(graph.inputs()[at]).type);
  }
  return inputs;
}

// The bytes of a run: inputs as their strides have them, outputs filled with a byte before.
struct ProgramBytes {
  ProgramBytes(const KernelGraph& graph, const std::vector<std::vector<double>>& values) {
    for (std::size_t at = 0; at < values.size(); ++at) {
      const TensorSpec& spec = graph.spec(graph.inputs()[at]);
      inputs.emplace_back(static_cast<std::size_t>(tensor_bytes(spec)));
      write_tensor(spec, values[at], inputs.back().data());
      input_addresses.push_back(inputs.back().data());
    }
    for (const int output : graph.outputs()) {
      outputs.emplace_back(static_cast<std::size_t>(tensor_bytes(graph.spec(output))), std::byte{0xff});
      output_addresses.push_back(outputs.back().data());
    }
  }
  ProgramBytes(const ProgramBytes&) = delete;
  ProgramBytes& operator=(const ProgramBytes&) = delete;

  ProgramCall call() const { return {input_addresses.data(), output_addresses.data(), nullptr, nullptr}; }

  std::vector<TensorBytes> inputs, outputs;
  std::vector<const void*> input_addresses;
  std::vector<void*> output_addresses;
};

inline std::vector<std::vector<double>> run_on_host(const KernelGraph& graph,
                                                    const std::vector<std::vector<double>>& inputs, int threads = 2,
                                                    const HostOps& ops = host_ops()) {
  const auto program = host_program(graph, threads, ops);
  const ProgramBytes bytes(graph, inputs);
  std::vector<std::vector<double>> values;
  if (!program) return values;
  const Status status = program->run(bytes.call());
  EXPECT_TRUE(status.ok()) << status.message();
  const std::vector<int> outputs = graph.outputs();
  for (std::size_t at = 0; at < outputs.size(); ++at)
    values.push_back(read_tensor(graph.spec(outputs[at]), bytes.outputs[at].data()));
  return values;
}

}  // namespace gqa

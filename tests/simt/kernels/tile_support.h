// tile_support.h: programs on tile kernels under the emulator, one kernel after another, against evaluate().
// Owns: inputs rounded to their types, buffers of all tensors of a program, the comparison.
// Never: chooses programs.
// Threads: one.
#pragma once

#include <map>
#include <memory>

#include "jit/block/tile_codegen.h"
#include "runtime/element.h"
#include "search/graph/prove/dense.h"
#include "tests/search/graph/tile/tile_graphs.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/tile_launch.h"

namespace gqa::simt {

inline ElementType dtype_of(ElementType type) {
  return type == ElementType::kF16 ? ElementType::kF16 : ElementType::kBF16;
}

// The span of a tensor in memory, in elements.
inline std::size_t span_of(const TensorSpec& spec) {
  const Dims strides = strides_of(spec);
  std::int64_t last = 0;
  for (std::size_t at = 0; at < strides.size(); ++at) last += (spec.dims[at] - 1) * strides[at];
  return static_cast<std::size_t>(last) + 1;
}

// A tensor of a program in memory that faults around it.
class TensorBuffer {
 public:
  TensorBuffer(const std::string& name, const TensorSpec& spec)
      : spec_(spec), buffer_(name, span_of(spec) * static_cast<std::size_t>(element_bytes(spec.type))) {}

  void* data() const { return buffer_.data(); }
  void poison() { buffer_.poison(); }

  void write(const std::vector<double>& values) {
    std::size_t from = 0;
    visit([&](std::int64_t at) { put(at, values[from++]); });
  }
  std::vector<double> read() const {
    std::vector<double> values;
    visit([&](std::int64_t at) { values.push_back(get(at)); });
    return values;
  }

 private:
  template <typename Visit>
  void visit(Visit each) const {
    walk<1>(spec_.dims, {strides_of(spec_)}, [&](const auto& at) { each(at[0]); });
  }
  void put(std::int64_t at, double value) const {
    if (spec_.type == ElementType::kF32)
      buffer_.as<float>()[at] = static_cast<float>(value);
    else
      buffer_.as<std::uint16_t>()[at] = store(dtype_of(spec_.type), static_cast<float>(value));
  }
  double get(std::int64_t at) const {
    if (spec_.type == ElementType::kF32) return buffer_.as<float>()[at];
    return load(dtype_of(spec_.type), buffer_.as<std::uint16_t>()[at]);
  }

  TensorSpec spec_;
  Buffer buffer_;
};

// A program's kernels, compiled, and memory for all its tensors.
class TileProgram {
 public:
  TileProgram(KernelGraph program, const std::vector<TileKernel>& kernels) : program_(std::move(program)) {
    for (const KernelTensor& tensor : program_.tensors())
      tensors_.push_back(std::make_unique<TensorBuffer>(tensor.name, tensor.spec));
    for (const TileKernel& kernel : kernels) {
      std::string why;
      kernels_.push_back({kernel, Kernel::compile(tile_source(kernel.graph), kTileEntryPoint, &why)});
      EXPECT_NE(nullptr, kernels_.back().second) << why << "\n" << tile_source(kernel.graph);
    }
  }

  bool compiled() const {
    return std::all_of(kernels_.begin(), kernels_.end(), [](const auto& kernel) { return kernel.second != nullptr; });
  }

  Status run(const std::vector<std::vector<double>>& inputs, const Schedule& schedule,
             std::vector<std::vector<double>>* outputs) {
    for (auto& tensor : tensors_) tensor->poison();
    for (std::size_t at = 0; at < inputs.size(); ++at) tensor(program_.inputs()[at]).write(inputs[at]);
    for (const auto& [kernel, code] : kernels_) {
      std::vector<void*> pointers;
      for (const std::vector<int>* ids : {&kernel.inputs, &kernel.outputs}) {
        for (const int id : *ids) pointers.push_back(tensor(id).data());
      }
      const Status status = launch_tile(kernel.graph, *code, pointers, schedule);
      if (!status.ok()) return status;
    }
    outputs->clear();
    for (const int output : program_.outputs()) outputs->push_back(tensor(output).read());
    return {};
  }

 private:
  TensorBuffer& tensor(int id) { return *tensors_[static_cast<std::size_t>(id)]; }

  KernelGraph program_;
  std::vector<std::unique_ptr<TensorBuffer>> tensors_;
  std::vector<std::pair<TileKernel, std::unique_ptr<Kernel>>> kernels_;
};

inline std::vector<std::vector<double>> rounded_inputs(const KernelGraph& graph, unsigned seed) {
  std::vector<std::vector<double>> inputs = random_inputs(graph, seed, 0.5);
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    for (double& value : inputs[at]) value = round_to(value, graph.spec(graph.inputs()[at]).type);
  }
  return inputs;
}

// How far a result in this type may be from the exact one, against it, or against the tensor's largest where all are
// small.
inline double tolerance_of(ElementType type) {
  return type == ElementType::kF32 ? 2e-5 : type == ElementType::kF16 ? 3e-3 : 2.4e-2;
}

inline double worst(const std::vector<double>& expected, const std::vector<double>& actual) {
  double error = 0;
  for (std::size_t at = 0; at < expected.size(); ++at) error = std::max(error, std::abs(expected[at] - actual[at]));
  return error;
}

inline void expect_close(const std::vector<double>& expected, const std::vector<double>& actual, double tolerance,
                         const std::string& name) {
  double largest = 1e-3;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t at = 0; at < expected.size(); ++at) {
    if (expected[at] == actual[at] || (std::isnan(expected[at]) && std::isnan(actual[at]))) continue;
    ASSERT_LE(std::abs(expected[at] - actual[at]), tolerance * std::min(largest, std::max(1.0, std::abs(expected[at]))))
        << name << "[" << at << "]: " << actual[at] << ", expected " << expected[at];
  }
}

// Equal, numbers that are none included.
inline bool same_bits(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](double one, double other) { return one == other || (std::isnan(one) && std::isnan(other)); });
  });
}

// What decides a program's verdict: its text and its kernels'.
inline std::string subject_of(const KernelGraph& program, const std::vector<TileKernel>& kernels) {
  std::string subject = to_text(program);
  for (const TileKernel& kernel : kernels)
    subject += '\0' + kernel_digest(tile_source(kernel.graph), embedded_headers());
  return subject;
}

inline void expect_judged(const KernelGraph& program, const std::vector<TileKernel>& kernels,
                          const std::function<void()>& judge) {
  SCOPED_TRACE(to_text(program));
  ASSERT_FALSE(kernels.empty());
  EXPECT_TRUE(test::verdict(subject_of(program, kernels), [&] { return test::no_failure_of(judge); }));
}

// At most twice the largest error of running the user's graph, operator after operator, in its own types. Devices judge
// row by row (judgement.h); of so few elements that is mostly chance.
inline void judge_passes(const KernelGraph& program, const std::vector<TileKernel>& kernels, const KernelGraph& user) {
  const std::vector<std::vector<double>> inputs = rounded_inputs(user, 7), expected = values_of(user, inputs);
  std::vector<std::vector<double>> naive, outputs;
  ASSERT_TRUE(evaluate(user, inputs, &naive, Rounding::kResults).ok());
  TileProgram tiles(program, kernels);
  ASSERT_TRUE(tiles.compiled());
  const Status status = tiles.run(inputs, {Order::kRandom, Copies::kLate, 5}, &outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::size_t at = 0; at < outputs.size(); ++at)
    EXPECT_LE(worst(expected[at], outputs[at]), 2 * worst(expected[at], naive[at])) << "output " << at;
}

// The program's results under every schedule: the same bits, and near what `meaning` evaluates to.
inline void judge_equals(const KernelGraph& program, const std::vector<TileKernel>& kernels, const KernelGraph& meaning,
                         const std::vector<std::vector<double>>& inputs) {
  TileProgram tiles(program, kernels);
  ASSERT_TRUE(tiles.compiled());
  const std::vector<std::vector<double>> expected = values_of(meaning, inputs);
  std::vector<std::vector<double>> first, outputs;
  for (const Schedule& schedule : schedules()) {
    const Status status = tiles.run(inputs, schedule, &outputs);
    ASSERT_TRUE(status.ok()) << to_text(schedule) << ": " << status.message();
    if (first.empty()) first = outputs;
    EXPECT_TRUE(same_bits(first, outputs)) << "a race: other results under " << to_text(schedule);
    for (std::size_t at = 0; at < outputs.size(); ++at) {
      const KernelTensor& tensor = program.tensor(program.outputs()[at]);
      expect_close(expected[at], outputs[at], tolerance_of(tensor.spec.type), tensor.name);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline void expect_passes(const KernelGraph& program, const std::vector<TileKernel>& kernels, const KernelGraph& user) {
  expect_judged(program, kernels, [&] { judge_passes(program, kernels, user); });
}

inline void expect_equals(const KernelGraph& program, const std::vector<TileKernel>& kernels,
                          const KernelGraph& meaning, std::vector<std::vector<double>> inputs = {}) {
  if (inputs.empty()) inputs = rounded_inputs(program, 1);
  expect_judged(program, kernels, [&] { judge_equals(program, kernels, meaning, inputs); });
}

}  // namespace gqa::simt

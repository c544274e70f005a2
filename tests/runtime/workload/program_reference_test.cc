// program_reference_test.cc: what a graph must give, and what is refused.
#include "runtime/workload/program_reference.h"

#include <cstring>
#include <ctime>

#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

ProgramReference reference_of(const KernelGraph& graph, std::uint64_t seed = 1) {
  ProgramReference reference;
  const Status status = make_reference(graph, seed, &reference);
  EXPECT_TRUE(status.ok()) << status.message();
  return reference;
}

const char* const kLinear = R"(graph 1
x = input f16[6,40]
w = input f16[40,9]
y = matmul(x, w)
)";

// A run that gave the reference itself, rounded; tests spoil it.
class Outputs {
 public:
  Outputs(const KernelGraph& graph, const ProgramReference& reference) : graph_(graph), reference_(reference) {
    const std::vector<int> outputs = graph.outputs();
    for (std::size_t at = 0; at < outputs.size(); ++at) {
      const TensorSpec& spec = graph.spec(outputs[at]);
      bytes_.emplace_back(static_cast<std::size_t>(guarded_bytes(spec)), std::byte{kPoison});
      write_tensor(spec, reference.outputs[at].values, data(at));
    }
  }

  std::byte* data(std::size_t output) { return bytes_[output].data() + kGuardBytes; }
  void put(std::int64_t index, double value, std::size_t output = 0) {
    const TensorSpec& spec = graph_.spec(graph_.outputs()[output]);
    store_element(spec.type, static_cast<float>(value), data(output) + index * element_bytes(spec.type));
  }
  Verdict judge() const {
    std::vector<OutputBytes> outputs;
    for (const TensorBytes& bytes : bytes_) outputs.push_back({bytes.data()});
    return gqa::judge(graph_, reference_.outputs, outputs);
  }
  std::string reason() const {
    const Verdict verdict = judge();
    EXPECT_EQ(verdict.passed, verdict.reason.empty());
    return verdict.reason;
  }

 private:
  const KernelGraph& graph_;
  const ProgramReference& reference_;
  std::vector<TensorBytes> bytes_;
};

TEST(ProgramReference, IsTheGraphsValueOnItsInputs) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  std::vector<std::vector<double>> inputs;
  for (std::size_t at = 0; at < 2; ++at)
    inputs.push_back(read_tensor(graph.spec(graph.inputs()[at]), reference.inputs[at].data()));
  EXPECT_EQ(reference.outputs[0].values, values_of(graph, inputs)[0]);
  EXPECT_EQ(reference.magnitude, 1);
  EXPECT_GT(reference.outputs[0].naive_error, 0);
  EXPECT_LT(reference.outputs[0].naive_error, 0x1p-10 * reference.outputs[0].largest);
}

TEST(ProgramReference, InputsAreNearNormalAndExactInEveryType) {
  for (const double magnitude : {1.0, 1.0 / 64}) {
    std::vector<std::vector<double>> values;
    for (const ElementType type : kElementTypes) {
      const TensorSpec spec = {{50, 401}, type};
      TensorBytes bytes(static_cast<std::size_t>(tensor_bytes(spec)));
      fill_input(spec, 7, magnitude, bytes.data());
      values.push_back(read_tensor(spec, bytes.data()));
    }
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[0], values[2]);
    double sum = 0, squares = 0;
    for (const double x : values[0]) {
      sum += x / magnitude;
      squares += x * x / magnitude / magnitude;
      EXPECT_NE(x, 0);
    }
    const auto count = static_cast<double>(values[0].size());
    EXPECT_NEAR(sum / count, 0, 0.03);
    EXPECT_NEAR(squares / count, 1, 0.05);
  }
}

TEST(ProgramReference, SeedsGiveOtherInputsAndEqualSeedsTheSame) {
  const KernelGraph graph = graph_of(kLinear);
  EXPECT_EQ(reference_of(graph, 1).inputs, reference_of(graph, 1).inputs);
  EXPECT_NE(reference_of(graph, 1).inputs[0], reference_of(graph, 2).inputs[0]);
}

TEST(ProgramReference, LaysInputsOutAsTheirStridesSay) {
  const TensorSpec spec = {{3, 4}, ElementType::kF32, {1, 5}};
  EXPECT_EQ(tensor_bytes(spec), 4 * (2 + 15 + 1));
  TensorBytes bytes(static_cast<std::size_t>(tensor_bytes(spec)), std::byte{0xaa});
  fill_input(spec, 3, 1, bytes.data());
  const TensorSpec dense = {{3, 4}, ElementType::kF32};
  TensorBytes expected(static_cast<std::size_t>(tensor_bytes(dense)));
  fill_input(dense, 3, 1, expected.data());
  EXPECT_EQ(read_tensor(spec, bytes.data()), read_tensor(dense, expected.data()));
  EXPECT_EQ(bytes[12], std::byte{0xaa});  // element 3: between two columns of three
}

TEST(ProgramReference, ShrinksInputsUntilTheNaiveRunIsFinite) {
  const KernelGraph graph = softmax_attention(1, 16, 256, 64);
  const ProgramReference reference = reference_of(graph);
  EXPECT_LT(reference.magnitude, 1);
  EXPECT_GT(reference.magnitude, 1.0 / 64);
  for (const double x : reference.outputs[0].values) ASSERT_TRUE(std::isfinite(x));
  EXPECT_LT(reference.outputs[0].naive_error, 0.01 * reference.outputs[0].largest);
}

// A sum past float16's largest number: quotients by it are 0, not infinite, and an error of 0 - x bounds nothing.
TEST(ProgramReference, ShrinksInputsWhereAnOverflowIsHidden) {
  const KernelGraph graph = softmax_attention(2, 64, 4096, 64);
  const ProgramReference reference = reference_of(graph);
  EXPECT_EQ(reference.magnitude, 1.0 / 4);
  EXPECT_LT(reference.outputs[0].naive_error, 0.01 * reference.outputs[0].largest);
}

TEST(ProgramReference, KeepsWhatNoMagnitudeMakesFinite) {
  const KernelGraph graph = graph_of("graph 1\nx = input f16[4,50]\ny = sqrt(x)\nz = mask(x) right=0\noutputs y, z\n");
  const ProgramReference reference = reference_of(graph);
  EXPECT_EQ(reference.magnitude, 1);
  Outputs outputs(graph, reference);
  EXPECT_EQ(outputs.reason(), "");
  outputs.put(49, -2, 1);  // the reference has -inf at [0,49]
  EXPECT_EQ(outputs.reason(), "output 'z': element [0,49] is -2, expected -inf");
}

TEST(ProgramReference, RotatesSetsOverTheCache) {
  const KernelGraph graph = graph_of("graph 1\nx = input f16[1024,512]\ny = exp(x)\n");  // a mebibyte
  EXPECT_EQ(rotated_sets(graph, 0), 1);
  EXPECT_EQ(rotated_sets(graph, 4 << 20), 8);
  EXPECT_EQ(rotated_sets(graph, 1 << 30), 16);
}

TEST(ProgramJudgement, PassesTheReferenceItself) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  const Verdict verdict = Outputs(graph, reference).judge();
  EXPECT_TRUE(verdict.passed) << verdict.reason;
  EXPECT_LE(verdict.error, verdict.bound);
  EXPECT_GT(verdict.bound, 0);
}

TEST(ProgramJudgement, AllowsTwiceTheNaiveErrorAndNoMore) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  Outputs outputs(graph, reference);
  const double bound = outputs.judge().bound;
  EXPECT_GE(bound, 2 * reference.outputs[0].naive_error);
  const double value = reference.outputs[0].values[13];
  const double unit = 0x1p-10 * std::abs(value);  // at least the element's last place
  outputs.put(13, value + bound + 2 * unit);
  const std::string reason = outputs.reason();
  EXPECT_EQ(reason.find("output 'y': element [1,4] is "), 0U) << reason;
  EXPECT_NE(reason.find("is over the bound"), std::string::npos) << reason;
  EXPECT_GT(outputs.judge().error, bound);
  outputs.put(13, value + bound / 2 - unit);
  EXPECT_EQ(outputs.reason(), "");
}

TEST(ProgramJudgement, FindsWhatWasNotWritten) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  Outputs outputs(graph, reference);
  for (int i = 0; i < 4; ++i) outputs.data(0)[2 * 53 - 2 + i] = std::byte{kPoison};  // the last two of 54
  EXPECT_EQ(outputs.reason(), "output 'y': 2 elements were not written, the first at [5,7]: expected each written");
}

TEST(ProgramJudgement, FindsNotANumberAndInfinity) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  for (const double value : {std::nan(""), kInfinity, -kInfinity}) {
    Outputs outputs(graph, reference);
    outputs.put(9, value);
    EXPECT_EQ(outputs.reason().find("output 'y': element [1,0] is "), 0U) << outputs.reason();
  }
}

TEST(ProgramJudgement, FindsWritesOutside) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  const std::int64_t end = 2 * 54;
  for (const std::int64_t at : {-kGuardBytes, std::int64_t{-1}, end, end + kGuardBytes - 1}) {
    Outputs outputs(graph, reference);
    outputs.data(0)[at] = std::byte{0};
    EXPECT_NE(outputs.reason().find("after it were written: expected none"), std::string::npos) << outputs.reason();
  }
}

TEST(ProgramJudgement, LooksAtEveryOutput) {
  const KernelGraph graph = graph_of("graph 1\nx = input f32[7]\na = exp(x)\nb = square(x)\noutputs b, a\n");
  const ProgramReference reference = reference_of(graph);
  Outputs outputs(graph, reference);
  EXPECT_EQ(outputs.reason(), "");
  outputs.put(3, reference.outputs[1].values[3] * 1.01 + 0.01, 1);
  EXPECT_EQ(outputs.reason().find("output 'a': element [3] is "), 0U) << outputs.reason();
}

// Verification must not be what a user waits for: a linear of 16 x 4096 by 4096 x 11008, the issue's graph.
TEST(ProgramReference, IsMadeInSeconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  GTEST_SKIP() << "needs an optimised build";
#endif
  const std::clock_t start = std::clock();
  reference_of(softmax_attention(2, 256, 4096, 64));
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 4);
}

}  // namespace
}  // namespace gqa

// program_reference_test.cc: what a graph must give, and what is refused.
#include "runtime/verify/program_reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

ProgramReference reference_of(const KernelGraph& graph, std::uint64_t seed = 1) {
  ProgramReference reference;
  const Status status = make_reference(graph, seed, Effort(8), 2, &reference);
  EXPECT_TRUE(status.ok()) << status.message();
  return reference;
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

double largest_unit(const ReferenceOutput& output) {
  double most = 0;
  for (const RowUnit& unit : output.units) most = std::max(most, unit.norm);
  return most;
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
    return gqa::judge(measured(graph_, reference_.outputs, outputs));
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
  // Rows of nine elements: eight of them, of six, are judged as one.
  ASSERT_EQ(reference.outputs[0].units.size(), 1U);
  EXPECT_NEAR(reference.outputs[0].units[0].norm, kF16Rounding.relative * norm_of(reference.outputs[0].values),
              0.3 * reference.outputs[0].units[0].norm);
}

TEST(ProgramReference, SeedsGiveOtherInputsAndEqualSeedsTheSame) {
  const KernelGraph graph = graph_of(kLinear);
  EXPECT_EQ(reference_of(graph, 1).inputs, reference_of(graph, 1).inputs);
  EXPECT_NE(reference_of(graph, 1).inputs[0], reference_of(graph, 2).inputs[0]);
}

TEST(ProgramReference, ShrinksInputsUntilTheNaiveRunIsFinite) {
  const KernelGraph graph = softmax_attention(1, 16, 256, 64);
  const ProgramReference reference = reference_of(graph);
  EXPECT_LT(reference.magnitude, 1);
  EXPECT_GT(reference.magnitude, 1.0 / 64);
  for (const double x : reference.outputs[0].values) ASSERT_TRUE(std::isfinite(x));
  EXPECT_LT(largest_unit(reference.outputs[0]), 0.01 * norm_of(reference.outputs[0].values));
}

// A sum past float16's largest number: quotients by it are 0, not infinite, and an error of 0 - x bounds nothing.
TEST(ProgramReference, ShrinksInputsWhereAnOverflowIsHidden) {
  const KernelGraph graph = softmax_attention(2, 64, 4096, 64);
  const ProgramReference reference = reference_of(graph);
  EXPECT_EQ(reference.magnitude, 1.0 / 4);
  EXPECT_LT(largest_unit(reference.outputs[0]), 0.01 * norm_of(reference.outputs[0].values));
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

// Where the yardstick overflows and the reference does not, anything may stand, and the rest is judged.
TEST(ProgramReference, WhatOnlyTheNaiveRunOverflowsIsFree) {
  const KernelGraph graph = graph_of(R"(graph 1
x = input f16[64,64]
y = input f16[64,64]
s = square(y)
r = div(x, s)
t = scale(r) c=0.0001
)");
  const ProgramReference reference = reference_of(graph);
  const std::vector<bool>& anything = reference.outputs[0].anything;
  const auto free = static_cast<std::size_t>(std::count(anything.begin(), anything.end(), true));
  EXPECT_GT(free, 0U);
  EXPECT_LT(free, anything.size() / 4);
  Outputs outputs(graph, reference);
  outputs.put(std::find(anything.begin(), anything.end(), true) - anything.begin(), kInfinity);
  EXPECT_EQ(outputs.reason(), "");
  outputs.put(std::find(anything.begin(), anything.end(), false) - anything.begin(), kInfinity);
  EXPECT_NE(outputs.reason().find(" is inf, expected "), std::string::npos) << outputs.reason();
}

// A row that is zero by cancellation alone: what float32 makes of it is no error.
TEST(ProgramReference, ARowThatCancelsIsJudgedByWhatItCancels) {
  const KernelGraph graph = graph_of(R"(graph 1
a = input f16[7,3]
b = input f16[3,32]
s = matmul(a, b)
m = mean(s) dim=1
d = sub(s, m)
o = sum(d) dim=1
)");
  const ProgramReference reference = reference_of(graph);
  Outputs outputs(graph, reference);
  outputs.put(4, reference.outputs[0].values[4] - 1.2e-7);
  EXPECT_EQ(outputs.reason(), "");
  outputs.put(4, reference.outputs[0].values[4] - 0.1);
  EXPECT_NE(outputs.reason(), "");
}

// ---- inputs far apart in size

const char* const kNorm = R"(graph 1
x = input f16[4,64]
g = input f16[64]
w = input f16[64,32]
n = rms_norm(x, g) eps=1e-06
y = matmul(n, w)
)";

TEST(FarInputs, AreTriedBothWaysInTurnsAndInPairs) {
  const KernelGraph graph = graph_of(kNorm);
  const ProgramReference reference = reference_of(graph);
  ASSERT_EQ(reference.trials.size(), 5U);
  EXPECT_EQ(reference.trials[0].where, "where 'x' is 2^12 and 'g' is 2^-12 and 'w' is 2^12 large: ");
  EXPECT_EQ(reference.trials[2].where, "where 'x' is 2^12 and 'g' is 2^12 and 'w' is 2^-12 large: ");
  for (std::size_t at = 0; at < 4; ++at) {
    const InputTrial& trial = reference.trials[at];
    ASSERT_EQ(trial.inputs.size(), 3U);
    for (const InputTrial::Replaced& input : trial.inputs) {
      const TensorSpec& spec = graph.spec(graph.inputs()[input.input]);
      const auto before = read_tensor(spec, reference.inputs[input.input].data());
      const double times = read_tensor(spec, input.bytes.data())[5] / before[5] * reference.magnitude;
      EXPECT_TRUE(times == 4096 || times == 1.0 / 4096) << times;
    }
  }
}

// The inputs are scaled in the kernel before the norm is taken: x * g leaves float16 where op by op stays in it.
TEST(FarInputs, FindAProductThatOverflowsOnTheWay) {
  const KernelGraph graph = graph_of(kNorm);
  const ProgramReference reference = reference_of(graph);
  const TensorSpec& spec = graph.spec(graph.outputs()[0]);
  const auto verdict = [&](bool overflows) {
    TensorBytes bytes;
    return verify(graph, reference, [&](std::size_t trial, std::vector<OutputBytes>* outputs) {
      std::vector<double> values = (trial == 0 ? reference.outputs : reference.trials[trial - 1].outputs)[0].values;
      if (overflows && trial == 3)  // x and g are large
        for (double& value : values) value = std::nan("");
      bytes = TensorBytes(static_cast<std::size_t>(guarded_bytes(spec)), std::byte{kPoison});
      write_tensor(spec, values, bytes.data() + kGuardBytes);
      outputs->push_back({bytes.data()});
      return Status();
    });
  };
  EXPECT_TRUE(verdict(false).passed) << verdict(false).reason;
  EXPECT_EQ(verdict(true).reason.find("where 'x' is 2^12 and 'g' is 2^12 and 'w' is 2^-12 large: output 'y'"), 0U)
      << verdict(true).reason;
}

// What cancels is multiplied before it has cancelled: on inputs about 0 that is as exact as the graph.
TEST(NearlyEqualInputs, FindADifferenceOfProducts) {
  const KernelGraph graph = graph_of(R"(graph 1
a = input f16[8,64]
b = input f16[8,64]
d = sub(a, b)
w = input f16[64,32]
y = matmul(d, w)
)");
  const ProgramReference reference = reference_of(graph);
  const TensorSpec& spec = graph.spec(graph.outputs()[0]);
  const auto number = [&](std::size_t trial, std::size_t input, std::size_t at) {
    const TensorBytes& bytes = trial == 0 ? reference.inputs[input] : reference.trials[trial - 1].inputs[input].bytes;
    return static_cast<double>(load_element(ElementType::kF16, bytes.data() + 2 * at));
  };
  const auto products_first = [&](std::size_t trial, std::size_t row, std::size_t column) {
    double products[2] = {};
    for (std::size_t input : {0, 1})
      for (std::size_t k = 0; k < 64; ++k)
        products[input] += number(trial, input, row * 64 + k) * number(trial, 2, k * 32 + column);
    return round_to(products[0], ElementType::kF16) - round_to(products[1], ElementType::kF16);
  };
  const auto verdict = [&](bool multiplies_first) {
    TensorBytes bytes;
    return verify(graph, reference, [&](std::size_t trial, std::vector<OutputBytes>* outputs) {
      std::vector<double> values = (trial == 0 ? reference.outputs : reference.trials[trial - 1].outputs)[0].values;
      const bool nearly_equal = trial == reference.trials.size();
      for (std::size_t at = 0; multiplies_first && nearly_equal && at < values.size(); ++at)
        values[at] = products_first(trial, at / 32, at % 32);
      bytes = TensorBytes(static_cast<std::size_t>(guarded_bytes(spec)), std::byte{kPoison});
      write_tensor(spec, values, bytes.data() + kGuardBytes);
      outputs->push_back({bytes.data()});
      return Status();
    });
  };
  EXPECT_TRUE(verdict(false).passed) << verdict(false).reason;
  EXPECT_EQ(verdict(true).reason.find("where all inputs are nearly 1: output 'y'"), 0U) << verdict(true).reason;
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

TEST(ProgramJudgement, HoldsAnElementToItsRowsOwnError) {
  const KernelGraph graph = graph_of(kLinear);
  const ProgramReference reference = reference_of(graph);
  Outputs outputs(graph, reference);
  // One of 54 elements: in the norm over all of them, the only one, it may be off by this.
  const double most = kFactors.norm * reference.outputs[0].units[0].norm;
  const double value = reference.outputs[0].values[13];
  outputs.put(13, value + 1.2 * most);
  EXPECT_EQ(outputs.reason().find("output 'y': 1 rows: root mean square"), 0U) << outputs.reason();
  outputs.put(13, value + 5 * most);
  const std::string reason = outputs.reason();
  EXPECT_EQ(reason.find("output 'y': element [1,4] is "), 0U) << reason;
  EXPECT_NE(reason.find("is over the bound"), std::string::npos) << reason;
  EXPECT_GT(outputs.judge().error, outputs.judge().bound);
  outputs.put(13, value + most / 2);
  EXPECT_EQ(outputs.reason(), "");
}

// Rows are relative to themselves: small ones that are zeroed, or off by a percent, do not hide behind large ones.
TEST(ProgramJudgement, SeesThatARowOfSmallNumbersIsWrong) {
  const KernelGraph graph = graph_of("graph 1\nx = input f16[9,70]\ns = input f16[9,1]\ny = mul(x, s)\n");
  ProgramReference reference = reference_of(graph);
  ReferenceOutput& output = reference.outputs[0];
  for (std::size_t at = 140; at < 210; ++at) output.values[at] /= 4096;
  output.units[2].norm /= 4096;
  output.units[2].element /= 4096;
  for (const double factor : {1.0, 1.01, 0.0}) {
    Outputs outputs(graph, reference);
    for (std::int64_t at = 140; at < 210; ++at) outputs.put(at, factor * output.values[static_cast<std::size_t>(at)]);
    EXPECT_EQ(outputs.reason().empty(), factor == 1) << outputs.reason();
  }
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

// ---- of a sample of rows

// A budget so small that a graph of a million operations is sampled.
ProgramReference sampled_reference(const KernelGraph& graph) {
  ProgramReference reference;
  const Status status = make_reference(graph, 1, Effort(1e-6), 2, &reference);
  EXPECT_TRUE(status.ok()) << status.message();
  return reference;
}

// A run that gave the graph's value everywhere, on the reference's inputs.
class WholeOutput {
 public:
  WholeOutput(const KernelGraph& graph, const ProgramReference& reference)
      : spec_(graph.spec(graph.outputs()[0])),
        bytes_(static_cast<std::size_t>(guarded_bytes(spec_)), std::byte{kPoison}) {
    std::vector<std::vector<double>> inputs;
    for (std::size_t at = 0; at < reference.inputs.size(); ++at)
      inputs.push_back(read_tensor(graph.spec(graph.inputs()[at]), reference.inputs[at].data()));
    values_ = values_of(graph, inputs)[0];
    write_tensor(spec_, values_, bytes_.data() + kGuardBytes);
  }
  const std::vector<double>& values() const { return values_; }
  void put(std::int64_t index, float value) {
    store_element(spec_.type, value, bytes_.data() + kGuardBytes + index * element_bytes(spec_.type));
  }
  void poison(std::int64_t index) {
    for (int i = 0; i < element_bytes(spec_.type); ++i)
      bytes_[static_cast<std::size_t>(kGuardBytes + index * element_bytes(spec_.type) + i)] = std::byte{kPoison};
  }
  std::string reason(const KernelGraph& graph, const ProgramReference& reference) const {
    return judge(measured(graph, reference.outputs, {{bytes_.data()}})).reason;
  }

 private:
  const TensorSpec spec_;
  TensorBytes bytes_;
  std::vector<double> values_;
};

const char* const kWide = "graph 1\nx = input f16[500,400]\nw = input f16[400,600]\ny = matmul(x, w)\nz = silu(y)\n";

TEST(SampledReference, IsPassedByTheWhole) {
  const KernelGraph graph = graph_of(kWide);
  const ProgramReference reference = sampled_reference(graph);
  EXPECT_LT(reference.outputs[0].values.size(), 500U * 600U / 2);
  EXPECT_GT(reference.outputs[0].values.size(), 300U);
  EXPECT_EQ(WholeOutput(graph, reference).reason(graph, reference), "");
}

TEST(SampledReference, SeesATileThatIsWrong) {
  const KernelGraph graph = graph_of(kWide);
  const ProgramReference reference = sampled_reference(graph);
  for (const std::int64_t row : {0, 64, 192, 436}) {  // tiles of 64 rows and all columns
    WholeOutput output(graph, reference);
    for (std::int64_t at = row * 600; at < (row + 64) * 600; ++at)
      output.put(at, static_cast<float>(output.values()[static_cast<std::size_t>(at)]) * 1.05F + 1);
    EXPECT_NE(output.reason(graph, reference).find("is over the bound"), std::string::npos) << row;
  }
}

TEST(SampledReference, SeesWhatIsNotWrittenOrNotFiniteWhereverItIs) {
  const KernelGraph graph = graph_of(kWide);
  const ProgramReference reference = sampled_reference(graph);
  const Indices &rows = reference.outputs[0].at[0], &columns = reference.outputs[0].at[1];
  ASSERT_FALSE(rows.empty());
  for (const std::int64_t row : {1, 2, 77, 498}) {
    if (std::count(rows.begin(), rows.end(), row) > 0) continue;
    WholeOutput unwritten(graph, reference), infinite(graph, reference);
    unwritten.poison(row * 600 + 5);
    EXPECT_NE(unwritten.reason(graph, reference).find("1 elements were not written"), std::string::npos);
    infinite.put(row * 600 + 5, INFINITY);
    EXPECT_NE(infinite.reason(graph, reference).find("is inf, expected a finite number"), std::string::npos);
  }
  EXPECT_LT(columns.size(), 600U);
}

TEST(SampledReference, HidesKeysAndKnowsThem) {
  const KernelGraph graph = graph_of(R"(graph 1
q = input f16[4,300,16]
k = input f16[4,16,200]
b = input f32[300,200]
v = input f16[4,200,16]
a = matmul(q, k)
s = add(a, b)
p = softmax(s) dim=2
o = matmul(p, v)
)");
  ProgramReference reference = sampled_reference(graph);
  ASSERT_EQ(reference.trials.size(), 2U);  // -inf and the least number: of a sample none far apart in size
  EXPECT_LT(reference.trials[0].outputs[0].values.size(), 4U * 300U * 16U);
  ProgramReference hidden;  // on the trial's inputs
  hidden.inputs = reference.inputs;
  hidden.inputs[2] = reference.trials[0].inputs[0].bytes;
  hidden.outputs = reference.trials[0].outputs;
  WholeOutput output(graph, hidden);
  EXPECT_EQ(output.reason(graph, hidden), "");
  const std::int64_t row = hidden.outputs[0].at[1][1];
  for (std::int64_t d = 0; d < 16; ++d) output.put(row * 16 + d, 3);
  EXPECT_NE(output.reason(graph, hidden), "");
}

TEST(SampledReference, EndsWhenCancelled) {
  std::atomic<std::uint64_t> cancels = 0;
  const Effort effort(8, &cancels);
  ++cancels;
  ProgramReference reference;
  EXPECT_EQ(make_reference(graph_of(kWide), 1, effort, 2, &reference).code(), Code::kCancelled);
  EXPECT_TRUE(reference.inputs.empty());
}

}  // namespace
}  // namespace gqa

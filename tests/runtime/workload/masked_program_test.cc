// masked_program_test.cc: graphs under masks on the host: every program that is offered answers, and one that answers
// NaN is refused.
#include <set>

#include "runtime/host/program/host_program_trial.h"
#include "runtime/verify/program_reference.h"
#include "tests/runtime/program_case.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/masked_graphs.h"

namespace gqa {
namespace {

using masked::kMasks;
using masked::kSpellings;

// Shapes at which masked graphs answered NaN.
constexpr masked::Shape kShapes[] = {{2, 64, 1024, 64}, {1, 16, 512, 64}};

// CPUs that the search ranks programs for: what is offered differs, and all of it runs on any.
struct Cpu {
  const char* isa;
  std::int64_t l2;
};
constexpr Cpu kCpus[] = {{"baseline", 512 << 10}, {"avx2", 512 << 10}, {"avx2", 2 << 20},
                         {"avx512", 1 << 20},     {"avx512", 2 << 20}, {"amx", 2 << 20}};

std::vector<FoundProgram> offered(const KernelGraph& graph, const DeviceSpec& device = host_spec()) {
  SearchOptions options;
  options.most_programs = 24;
  SearchResult result;
  const Status status = superoptimize(graph, device, options, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<FoundProgram> programs;
  for (RankedProgram& ranked : result.programs) programs.push_back(std::move(ranked.program));
  return programs;
}

std::unique_ptr<Trial> trial_of(const KernelGraph& graph) {
  std::unique_ptr<Trial> trial;
  const Status status = HostProgramTrial::make(graph, host_spec(), Effort(60), &trial);
  EXPECT_TRUE(status.ok()) << status.message();
  return trial;
}

class MaskedPrograms : public testing::TestWithParam<std::size_t> {};

TEST_P(MaskedPrograms, EachGivesTheGraphsValueUnderEachMask) {
  const masked::Spelling& spelling = kSpellings[GetParam()];
  for (const masked::Shape& shape : kShapes) {
    if (GetParam() > 1 && shape.keys > 512) continue;  // the first two stand for all
    const KernelGraph graph = graph_of(masked::text_of(spelling, shape));
    const std::vector<FoundProgram> programs = offered(graph);
    EXPECT_GT(programs.size(), 3U);
    for (const masked::Mask& mask : kMasks) {
      const auto inputs = masked::inputs_of(graph, shape, spelling, mask);
      const auto expected = values_of(graph, inputs)[0];
      for (const FoundProgram& program : programs)
        EXPECT_TRUE(masked::matches(run_on_host(program.graph, inputs)[0], expected, 2e-5))
            << spelling.name << ", " << mask.name << "\n"
            << to_text(program.graph);
    }
  }
}

TEST_P(MaskedPrograms, EachPassesVerification) {
  const KernelGraph graph = graph_of(masked::text_of(kSpellings[GetParam()], kShapes[1], "f16"));
  const auto trial = trial_of(graph);
  std::set<std::string> tried;
  for (const Cpu& cpu : kCpus) {
    for (const FoundProgram& program : offered(graph, host_spec(cpu.isa, 2, {cpu.l2, 32 << 20}))) {
      if (!tried.insert(to_text(program.graph)).second) continue;
      const Verdict verdict = trial->verify(*host_program(program.graph));
      EXPECT_TRUE(verdict.passed) << verdict.reason << "\n" << to_text(program.graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spellings, MaskedPrograms, testing::Range(std::size_t{0}, std::size(kSpellings)));

// The lowering of before: right for every mask that hides no first tile.
TEST(MaskedVerification, RefusesAPlainSubtractionOfARunningMaximum) {
  const KernelGraph graph = graph_of(masked::text_of(kSpellings[0], kShapes[0]));
  const auto trial = trial_of(graph);
  int planted = 0;
  for (const FoundProgram& program : offered(graph)) {
    const std::string text = to_text(program.graph), plain = masked::with_plain_subtraction(text);
    if (text.find("running_max(") == std::string::npos) continue;
    const Verdict verdict = trial->verify(*host_program(graph_of(plain)));
    EXPECT_FALSE(verdict.passed) << plain;
    EXPECT_EQ(verdict.reason.find("where input 'm' hides keys: output 'o': element "), 0U) << verdict.reason;
    EXPECT_NE(verdict.reason.find("nan, expected"), std::string::npos) << verdict.reason;
    EXPECT_TRUE(trial->verify(*host_program(program.graph)).passed);
    ++planted;
  }
  EXPECT_GT(planted, 2);
}

std::vector<InputTrial> hiding_trials(const ProgramReference& reference) {
  std::vector<InputTrial> trials;
  for (const InputTrial& trial : reference.trials)
    if (trial.where.find("hides keys") != std::string::npos) trials.push_back(trial);
  return trials;
}

TEST(MaskedVerification, TriesFirstLastAndMiddleTilesAndWholeRows) {
  for (const std::int64_t rows : {1, 2, 64}) {
    const KernelGraph graph = graph_of(masked::text_of(kSpellings[0], {2, rows, 256, 16}));
    ProgramReference reference;
    ASSERT_TRUE(make_reference(graph, 1, Effort(8), 2, &reference).ok());
    std::vector<InputTrial> trials = hiding_trials(reference);
    ASSERT_EQ(trials.size(), rows < 64 ? 4U : 2U);
    trials.pop_back();  // the one with the type's least number
    std::set<std::string> seen;
    for (const InputTrial& trial : trials) {
      ASSERT_EQ(trial.inputs.size(), 1U);
      EXPECT_EQ(trial.inputs[0].input, 3U);
      const auto mask = read_tensor(graph.spec(graph.inputs()[3]), trial.inputs[0].bytes.data());
      for (std::int64_t row = 0; row < rows; ++row) {
        std::string tiles;  // of 16 keys
        for (std::int64_t tile = 0; tile < 16; ++tile) {
          const auto at = mask.begin() + row * 256 + tile * 16;
          tiles += std::all_of(at, at + 16, [](double x) { return x == -kInfinity; }) ? 'h' : '.';
        }
        seen.insert(tiles);
        const double out = trial.outputs[0].values[static_cast<std::size_t>(row * 16)];
        EXPECT_EQ(std::isnan(out), tiles == std::string(16, 'h'));
      }
    }
    EXPECT_TRUE(seen.count(std::string(16, 'h')));
    EXPECT_TRUE(seen.count(std::string(15, 'h') + "."));
    EXPECT_TRUE(seen.count("hhhh..hhhh....hh"));
    EXPECT_EQ(seen.count("." + std::string(15, 'h')), rows == 1 ? 0U : 1U);
  }
}

// As transformers write a mask: a row that it hides whole is softmax's of what is left of its scores, not NaN.
TEST(MaskedVerification, TriesTheLeastNumberOfTheMasksType) {
  const KernelGraph graph = graph_of(masked::text_of(kSpellings[0], {2, 64, 256, 16}));
  ProgramReference reference;
  ASSERT_TRUE(make_reference(graph, 1, Effort(8), 2, &reference).ok());
  const InputTrial trial = hiding_trials(reference).back();
  const TensorSpec& spec = graph.spec(graph.inputs()[3]);
  const auto mask = read_tensor(spec, trial.inputs[0].bytes.data());
  EXPECT_EQ(*std::min_element(mask.begin(), mask.end()), -largest_of(spec.type));
  for (const double value : trial.outputs[0].values) ASSERT_TRUE(std::isfinite(value));
}

TEST(MaskedVerification, NoMaskNoTrial) {
  ProgramReference reference;
  ASSERT_TRUE(make_reference(softmax_attention(1, 4, 32, 8), 1, Effort(8), 2, &reference).ok());
  EXPECT_TRUE(hiding_trials(reference).empty());
}

// A row without a key: NaN, as the graph has it, or 0.
TEST(MaskedVerification, ARowWithoutAKeyIsNanOrZeroAndNothingElse) {
  const KernelGraph graph = graph_of(masked::text_of(kSpellings[0], {1, 8, 64, 16}));
  ProgramReference reference;
  ASSERT_TRUE(make_reference(graph, 1, Effort(8), 2, &reference).ok());
  ASSERT_EQ(hiding_trials(reference).size(), 2U);
  const TensorSpec& spec = graph.spec(graph.outputs()[0]);
  const auto verdict_with = [&](double value) {
    TensorBytes bytes;
    return verify(graph, reference, [&](std::size_t trial, std::vector<OutputBytes>* outputs) {
      auto values = (trial == 0 ? reference.outputs : reference.trials[trial - 1].outputs)[0].values;
      for (double& each : values) each = std::isnan(each) ? value : each;
      bytes = TensorBytes(static_cast<std::size_t>(guarded_bytes(spec)), std::byte{kPoison});
      write_tensor(spec, values, bytes.data() + kGuardBytes);
      outputs->push_back({bytes.data()});
      return Status();
    });
  };
  EXPECT_TRUE(verdict_with(std::nan("")).passed);
  EXPECT_TRUE(verdict_with(0).passed);
  for (const double wrong : {0.25, kInfinity, -kInfinity}) {
    const Verdict verdict = verdict_with(wrong);
    EXPECT_FALSE(verdict.passed) << wrong;
    EXPECT_NE(verdict.reason.find(", expected nan or 0"), std::string::npos) << verdict.reason;
  }
}

}  // namespace
}  // namespace gqa

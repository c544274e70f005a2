// host_program_test.cc: programs on the host give what evaluate() gives: every operator, every program of the search.
#include "runtime/host/program/host_program.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numbers>
#include <set>
#include <thread>

#include "runtime/host/program/host_program_trial.h"
#include "search/graph/attention/attention_program.h"
#include "tests/runtime/program_case.h"
#include "tests/sanitized.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/small_graphs.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have a heap, and threads, of their own
// Every allocation of this program is counted: a warm launch must make none.
static std::atomic<std::int64_t> allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace gqa {
namespace {

// Both NaN, both the same infinity, or near.
void expect_same(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < found.size(); ++at) {
    if (found[at] == expected[at] || (std::isnan(found[at]) && std::isnan(expected[at]))) continue;
    ASSERT_NEAR(found[at], expected[at], tolerance * std::max(1.0, std::abs(expected[at]))) << "element " << at;
  }
}

double tolerance_of(ElementType type) {
  return type == ElementType::kF32 ? 2e-5 : type == ElementType::kF16 ? 0x1p-10 : 0x1p-7;
}

void expect_values_of(const KernelGraph& graph, unsigned seed, double scale, int threads, const HostOps& ops) {
  const auto inputs = typed_inputs(graph, seed, scale);
  const auto found = run_on_host(graph, inputs, threads, ops), expected = values_of(graph, inputs);
  const std::vector<int> outputs = graph.outputs();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < outputs.size(); ++at) {
    SCOPED_TRACE("output " + graph.tensor(outputs[at]).name);
    ASSERT_NO_FATAL_FAILURE(expect_same(found[at], expected[at], tolerance_of(graph.spec(outputs[at]).type)));
  }
}

// TYPE stands for each element type in turn.
const std::string kOperators[] = {
    R"(graph 1
x = input TYPE[3,5,21]
a = exp(x)
b = exp2(x)
c = square(x)
d = sqrt(c)
e = relu(x)
f = silu(x)
g = gelu(x)
h = tanh(x)
i = clamp(x) lo=-0.5 hi=0.75
j = scale(x) c=3 count=7
k = add_constant(x) c=1.5
outputs a, b, c, d, e, f, g, h, i, j, k
)",
    R"(graph 1
x = input TYPE[4,9]
c = add_constant(x) c=6
a = rsqrt(c)
b = reciprocal(c)
y = input TYPE[9]
z = input TYPE[2,4,1]
e = add(x, y)
f = sub(z, x)
g = mul(y, z)
h = div(x, c)
i = sub_max(x, y)
j = normalize(z, c)
outputs a, b, e, f, g, h, i, j
)",
    R"(graph 1
x = input TYPE[3,7,300]
a = sum(x) dim=0
b = sum(x) dim=2
c = max(x) dim=1
d = max(x) dim=-1
e = mean(x) dim=2
f = softmax(x) dim=1
g = softmax(x) dim=-1
h = rms_norm(x) eps=0.01
w = input TYPE[300]
i = rms_norm(x, w) eps=0.01
outputs a, b, c, d, e, f, g, h, i
)",
    R"(graph 1
x = input TYPE[2,20000]
a = sum(x) dim=1
b = max(x) dim=1
c = mean(x) dim=1
t = input TYPE[20000,3]
d = sum(t) dim=0
outputs a, b, c, d
)",
    R"(graph 1
x = input TYPE[2,13,19]
a = mask(x) right=0
b = mask(x) left=2 right=1
c = mask(x) left=3
d = transpose(x) dims=[2,0,1]
f = unsqueeze(x) dim=0
outputs a, b, c, d, f
)",
    R"(graph 1
x = input TYPE[13,1]
a = broadcast(x) dims=[2,13,70]
b = squeeze(x) dim=1
c = unsqueeze(x) dim=1
d = constant() dims=[5,600] c=0.3 type=TYPE
outputs a, b, c, d
)",
    R"(graph 1
a = input TYPE[2,3,70,40]
b = input TYPE[3,40,90]
c = matmul(a, b)
)",
    R"(graph 1
a = input TYPE[40,70]
b = input TYPE[90,40]
c = matmul(a, b) ta=1 tb=1
)",
    R"(graph 1
a = input TYPE[2,4,1,600]
b = input TYPE[2,1,1,300,600]
c = matmul(a, b) tb=1
)",
};

std::string of_type(std::string text, ElementType type) {
  for (std::size_t at = 0; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, name(type));
  return text;
}

class Operators : public testing::TestWithParam<std::string> {};

TEST_P(Operators, GiveWhatEvaluateGives) {
  for (const ElementType type : kElementTypes) {
    const KernelGraph graph = graph_of(of_type(GetParam(), type));
    for (const HostOps* ops : usable_host_ops()) {
      SCOPED_TRACE(std::string(ops->name) + " " + std::string(name(type)));
      ASSERT_NO_FATAL_FAILURE(expect_values_of(graph, 5, 1, 2, *ops));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Operators, testing::ValuesIn(kOperators));

TEST(HostProgram, EveryOperatorOfTheKernelLevelIsTried) {
  std::set<std::string_view> tried;
  for (const std::string& text : kOperators) {
    const KernelGraph graph = graph_of(of_type(text, ElementType::kF32));
    for (const KernelNode& node : graph.nodes()) tried.insert(name(node.op));
  }
#define GQA_OP(id, text, kind, least, most, linear, commutes, level, attributes) \
  EXPECT_TRUE(Level::level == Level::kBlock || Op::id == Op::kCustom || tried.count(text)) << text;
  GQA_OPS(GQA_OP)
#undef GQA_OP
}

// Infinities, NaN, the smallest and largest numbers: as IEEE 754 has them and op.h says.
TEST(HostProgram, FunctionsOfTheUnusual) {
  const KernelGraph graph = graph_of(R"(graph 1
x = input f32[20]
y = input f32[20]
a = exp(x)
b = exp2(x)
c = relu(x)
d = tanh(x)
e = silu(x)
f = gelu(x)
g = sub_max(x, y)
h = normalize(x, y)
i = sqrt(x)
j = rsqrt(x)
k = clamp(x) lo=-3 hi=4
l = reciprocal(x)
)");
  const double inf = kInfinity, nan = std::nan("");
  const std::vector<double> x = {inf, -inf, nan,  0,   88.7, 89,   -87.5, -100, -104, 127.9,
                                 128, -149, 1e-3, -30, 30,   -inf, inf,   0.6,  -0.7, 1e30};
  const std::vector<double> y = {1, 1, 1, 0, 0, nan, inf, 2, 3, 4, 5, 6, 7, 8, 9, -inf, inf, 0, 0, 1};
  std::vector<std::vector<double>> inputs = {x, y};
  for (std::vector<double>& values : inputs) {
    for (double& value : values) value = round_to(value, ElementType::kF32);
  }
  const auto expected = values_of(graph, inputs);
  for (const HostOps* ops : usable_host_ops()) {
    const auto found = run_on_host(graph, inputs, 1, *ops);
    for (std::size_t at = 0; at < found.size(); ++at) {
      SCOPED_TRACE(std::string(ops->name) + " output " + std::to_string(at));
      std::vector<double> rounded = expected[at];
      for (double& value : rounded) value = round_to(value, ElementType::kF32);
      ASSERT_NO_FATAL_FAILURE(expect_same(found[at], rounded, 2e-5));
    }
  }
}

// No farther off than float32's own erf leaves 0.5 x (1 + erf(x / sqrt(2))), and in the left tail far less.
TEST(HostProgram, GeluKeepsTheDigitsOfItsTail) {
  std::vector<float> x;
  for (int at = -12 * 1024; at <= 6 * 1024; ++at) x.push_back(static_cast<float>(at) / 1024);
  UnaryStep step;
  step.op = Op::kGelu;
  for (const HostOps* ops : usable_host_ops()) {
    std::vector<float> found(x.size());
    ops->unary(step, x.data(), found.data(), static_cast<std::ptrdiff_t>(x.size()));
    for (std::size_t at = 0; at < x.size(); ++at) {
      const double exact = 0.5 * x[at] * std::erfc(-x[at] / std::numbers::sqrt2);
      const double allowed = x[at] < -4 ? 1e-9 : x[at] < 0 ? 1e-7 : 1.2e-7 * std::max(1.0F, x[at]);
      ASSERT_NEAR(found[at], exact, allowed) << ops->name << " " << x[at];
    }
  }
}

// Every float16, there and back.
TEST(HostProgram, ConversionsAreThoseOfHalf) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t at = 0; at < all.size(); ++at) all[at] = static_cast<std::uint16_t>(at);
  std::vector<float> wide(all.size());
  for (const HostOps* ops : usable_host_ops()) {
    for (const ElementType type : {ElementType::kF16, ElementType::kBF16}) {
      for (const std::ptrdiff_t count : {65536, 65533}) {  // also where the last vector is short
        ops->widen(type, all.data(), wide.data(), count);
        std::vector<std::uint16_t> back(all.size());
        ops->narrow(type, wide.data(), back.data(), count);
        for (std::ptrdiff_t at = 0; at < count; ++at) {
          const auto bits = all[static_cast<std::size_t>(at)];
          const float expected = type == ElementType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
          const float found = wide[static_cast<std::size_t>(at)];
          ASSERT_TRUE(found == expected || (found != found && expected != expected)) << ops->name << " " << at;
          ASSERT_TRUE(expected != expected || back[static_cast<std::size_t>(at)] == bits) << ops->name << " " << at;
        }
      }
      for (const float value : {1.00049F, 65519.9F, 65520.F, 3e-8F, 2.9e-8F, -0.F, 3.4e38F, 1.0039F, 6.1e-5F}) {
        std::uint16_t found = 0;
        ops->narrow(type, &value, &found, 1);
        const std::uint16_t expected = type == ElementType::kF16 ? float_to_half(value) : float_to_bfloat16(value);
        EXPECT_EQ(found, expected) << ops->name << " " << value;
      }
    }
  }
}

class HostSmallGraphs : public testing::TestWithParam<std::string> {};

TEST_P(HostSmallGraphs, EveryProgramOfTheSearchComputesWhatTheUserWrote) {
  const KernelGraph graph = graph_of(GetParam());
  const auto inputs = typed_inputs(graph, 7, 0.5);
  const auto expected = values_of(graph, inputs);
  const double tolerance = graph.spec(graph.outputs()[0]).type == ElementType::kF32 ? 2e-5 : 4e-3;
  const SearchResult result = search(graph, "", 40);
  EXPECT_GT(result.programs.size(), 8U);
  for (const RankedProgram& ranked : result.programs) {
    SCOPED_TRACE(to_text(ranked.program.graph));
    const auto found = run_on_host(ranked.program.graph, inputs, 3);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t at = 0; at < found.size(); ++at)
      ASSERT_NO_FATAL_FAILURE(expect_same(found[at], expected[at], tolerance));
  }
}

INSTANTIATE_TEST_SUITE_P(Host, HostSmallGraphs, testing::ValuesIn(programs::kSmall));

// Scores of thousands, where only a running maximum that is one keeps exp finite: what is split, merged and rescaled.
TEST(HostProgram, LargeScoresDoNotOverflowUnderARunningMaximum) {
  std::string stable = programs::kSmall[0];
  const std::string quotient = "e = exp(a)\ns = sum(e) dim=2\nd = div(e, s)";
  stable.replace(stable.find(quotient), quotient.size(), "d = softmax(a) dim=2");
  const KernelGraph naive = graph_of(programs::kSmall[0]);
  const auto inputs = typed_inputs(naive, 3, 30);
  const auto expected = values_of(graph_of(stable), inputs)[0];
  int safe = 0;
  for (const RankedProgram& ranked : search(naive, "attention", 40).programs) {
    const bool fused = ranked.program.graph.nodes().size() <= 2 && all_custom(ranked.program.graph);
    if (!ranked.program.safe || !fused) continue;
    SCOPED_TRACE(to_text(ranked.program.graph));
    ASSERT_NO_FATAL_FAILURE(expect_same(run_on_host(ranked.program.graph, inputs)[0], expected, 2e-3));
    ++safe;
  }
  EXPECT_GT(safe, 2);
}

// The families' programs run as the block graphs they stand for: masks, packed groups, parts and merge.
TEST(HostProgram, RunsTheFamiliesPrograms) {
  const std::pair<const char*, const char*> kCases[] = {
      {"b=1,hq=4,hk=2,sq=70,sk=150,d=32,dtype=f16,causal", "flash m=32 n=32 warps=4 stages=2 pack=1"},
      {"b=2,hq=8,hk=2,sq=1,sk=300,d=32,dtype=bf16", "split m=16 n=32 warps=4 stages=2 pack=4 splits=3"},
  };
  for (const auto& [problem, candidate] : kCases) {
    const KernelGraph program = attention_program(problem_of(problem), candidate_of(candidate));
    ASSERT_FALSE(program.nodes().empty()) << candidate;
    const auto inputs = typed_inputs(program, 3);
    const auto found = run_on_host(program, inputs), expected = values_of(program, inputs);
    const std::vector<int> outputs = program.outputs();
    for (std::size_t at = 0; at < found.size(); ++at) {
      SCOPED_TRACE(candidate);
      ASSERT_NO_FATAL_FAILURE(expect_same(found[at], expected[at], tolerance_of(program.spec(outputs[at]).type)));
    }
  }
}

TEST(HostProgram, ReadsInputsAsTheyLie) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    std::string text = R"(graph 1
q = input TYPE[2,40,16] strides=[16,32,1]
k = input TYPE[2,16,150] strides=[2400,1,16]
v = input TYPE[1,150,24] strides=[0,30,1]
w = input TYPE[24,24] strides=[0,1]
a = matmul(q, k)
p = softmax(a) dim=2
o = matmul(p, v)
y = add(o, g)
r = matmul(y, w)
t = transpose(k) dims=[2,1,0]
outputs r, t
)";
    text.replace(text.find("a = matmul"), 0, "g = input TYPE[40,1] strides=[3,1]\n");
    for (std::size_t at = 0; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, type);
    const KernelGraph graph = graph_of(text);
    auto inputs = typed_inputs(graph, 9, 0.5);
    for (std::size_t at = 0; at < 24 * 24; ++at) inputs[3][at] = inputs[3][at % 24];  // all rows are one
    const auto found = run_on_host(graph, inputs), expected = values_of(graph, inputs);
    SCOPED_TRACE(type);
    const double tolerance = graph.spec(graph.outputs()[0]).type == ElementType::kF32 ? 1e-5 : 3e-2;
    ASSERT_NO_FATAL_FAILURE(expect_same(found[0], expected[0], tolerance));
    expect_same(found[1], expected[1], 0);
  }
}

// A result that is no output and that nobody reads.
TEST(HostProgram, LeavesOutWhatNobodyReads) {
  const KernelGraph graph = graph_of("graph 1\nx = input f32[5,7]\na = exp(x)\nb = square(x)\noutputs b\n");
  ASSERT_NO_FATAL_FAILURE(expect_values_of(graph, 3, 1, 2, host_ops()));
}

TEST(HostProgram, ThreadsChangeNothing) {
  const KernelGraph graph = graph_of(programs::kSmall[1]);
  const auto inputs = typed_inputs(graph, 2);
  for (const RankedProgram& ranked : search(graph, "", 6).programs) {
    const auto one = run_on_host(ranked.program.graph, inputs, 1);
    for (const int threads : {2, 5}) EXPECT_EQ(run_on_host(ranked.program.graph, inputs, threads), one);
  }
}

TEST(HostProgram, LaunchesFromSeveralThreadsAtOnce) {
  const KernelGraph graph = graph_of(programs::kSmall[4]);
  const auto program = host_program(graph);
  std::vector<std::vector<std::vector<double>>> inputs;
  std::vector<std::unique_ptr<ProgramBytes>> bytes;
  for (unsigned seed = 0; seed < 4; ++seed) {
    inputs.push_back(typed_inputs(graph, seed));
    bytes.push_back(std::make_unique<ProgramBytes>(graph, inputs.back()));
  }
  std::vector<std::thread> callers;
  for (const auto& each : bytes) {
    callers.emplace_back([&program, &each] {
      for (int i = 0; i < 8; ++i) EXPECT_TRUE(program->run(each->call()).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::size_t at = 0; at < bytes.size(); ++at)
    EXPECT_EQ(read_tensor(graph.spec(graph.outputs()[0]), bytes[at]->outputs[0].data()),
              run_on_host(graph, inputs[at], 1)[0]);
}

TEST(HostProgram, AllocatesNothingOnceWarm) {
  if (test::kSanitized) GTEST_SKIP() << "counts allocations, which the sanitizers replace";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const KernelGraph graph = graph_of(programs::kSmall[1]);
  const auto inputs = typed_inputs(graph, 2);
  for (const RankedProgram& ranked : search(graph, "", 12).programs) {
    const auto program = host_program(ranked.program.graph);
    const ProgramBytes bytes(graph, inputs);
    ASSERT_TRUE(program->run(bytes.call()).ok());
    // A thread of the pool that had no block the first time makes its arena once, whenever it is given one.
    constexpr int kLaunches = 64, kArenas = 8;
    const std::int64_t before = allocations;
    for (int i = 0; i < kLaunches; ++i) ASSERT_TRUE(program->run(bytes.call()).ok());
    EXPECT_LT(allocations - before, kArenas) << to_text(ranked.program.graph);
  }
#endif
}

class HostDevicePrograms : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(open_host_device(2, &device_).ok()); }

  Status load(const KernelGraph& graph, std::unique_ptr<LoadedProgram>* program) {
    return compile_and_load(*device_, program_of_graph(graph), program);
  }

  std::unique_ptr<Device> device_;
};

TEST_F(HostDevicePrograms, VerifiesAndTimesEveryProgram) {
  const KernelGraph graph = graph_of(programs::kSmall[0]);
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {graph}, Effort(60), &trial).ok());
  int passed = 0;
  const SearchResult result = search(graph, "", 24);
  for (const RankedProgram& ranked : result.programs) {
    std::unique_ptr<LoadedProgram> program;
    ASSERT_TRUE(load(ranked.program.graph, &program).ok());
    const Verdict verdict = trial->verify(*program);
    EXPECT_TRUE(verdict.passed) << verdict.reason << "\n" << to_text(ranked.program.graph);
    passed += verdict.passed;
    std::vector<double> microseconds;
    ASSERT_TRUE(trial->time(*program, 3, &microseconds).ok());
    ASSERT_EQ(microseconds.size(), 3U);
    EXPECT_GT(*std::min_element(microseconds.begin(), microseconds.end()), 0);
  }
  EXPECT_EQ(passed, static_cast<int>(result.programs.size()));
}

// The graph with one thing wrong is refused against the graph as it was meant.
TEST_F(HostDevicePrograms, RefusesWhatComputesAnotherThing) {
  const KernelGraph graph = graph_of(programs::kSmall[3]);
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {graph}, Effort(60), &trial).ok());
  const auto verdict_of = [&](const KernelGraph& wrong) {
    std::unique_ptr<LoadedProgram> program;
    EXPECT_TRUE(load(wrong, &program).ok());
    return trial->verify(*program);
  };
  EXPECT_TRUE(verdict_of(graph).passed);
  std::string text = programs::kSmall[3];
  text.replace(text.find("eps=1e-05"), 9, "eps=0.002");
  const Verdict verdict = verdict_of(graph_of(text));
  EXPECT_FALSE(verdict.passed);
  EXPECT_GT(verdict.error, verdict.bound);
  EXPECT_NE(verdict.reason.find("is over the bound"), std::string::npos) << verdict.reason;
}

TEST_F(HostDevicePrograms, RefusesAFlashProgramThatForgetsToRescale) {
  const KernelGraph graph = graph_of(programs::kSmall[0]);
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {graph}, Effort(60), &trial).ok());
  const SearchResult result = search(graph, "attention", 40);
  const FoundProgram* flash = find_program(result, [](const KernelGraph& g) { return is_flash(g, 2, 1); });
  ASSERT_NE(flash, nullptr);
  std::string text = to_text(flash->graph);
  for (std::size_t rows = 0; (rows = text.find("accumulate_rescaled(", rows)) != std::string::npos;) {
    const std::size_t comma = text.find(',', rows), close = text.find(')', rows);
    text.replace(rows, close - rows, "accumulate(" + text.substr(rows + 20, comma - rows - 20));
  }
  std::unique_ptr<LoadedProgram> program;
  ASSERT_TRUE(load(graph_of(text), &program).ok()) << text;
  EXPECT_FALSE(trial->verify(*program).passed);
}

TEST_F(HostDevicePrograms, RefusesAnothersBinaries) {
  const Program wanted = program_of_graph(graph_of(programs::kSmall[4]));
  std::unique_ptr<LoadedProgram> program;
  const Status status = device_->load(wanted, std::vector<Binary>(wanted.sources.size()), &program);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("expected the text of each"), std::string::npos) << status.message();
  EXPECT_EQ(program, nullptr);
}

}  // namespace
}  // namespace gqa

// graph_gpu_test.cc: users' graphs on a GPU: searched, compiled, verified and timed, then run as a user runs them and
// judged once more. Skipped by name where there is no GPU.
#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/element.h"
#include "runtime/session/graph_answer.h"
#include "runtime/verify/program_reference.h"
#include "search/graph/enumerate/superoptimize.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/search/graph/graphs.h"

namespace gqa::test {
namespace {

constexpr const char* kSoftcap =
    "graph 1\n"
    "q = input f16[2,128,64]\n"
    "k = input f16[2,64,512]\n"
    "v = input f16[2,512,64]\n"
    "a = matmul(q, k)\n"
    "b = scale(a) c=0.02\n"
    "c = tanh(b)\n"
    "s = scale(c) c=50\n"
    "p = softmax(s) dim=2\n"
    "o = matmul(p, v)\n";
constexpr const char* kCausal =
    "graph 1\n"
    "q = input bf16[8,256,128]\n"
    "k = input bf16[8,256,128]\n"
    "v = input bf16[8,256,128]\n"
    "a = matmul(q, k) tb=1\n"
    "b = scale(a) c=0.08838834764831845\n"
    "m = mask(b) right=0\n"
    "p = softmax(m) dim=2\n"
    "o = matmul(p, v)\n";
constexpr const char* kGrouped =
    "graph 1\n"
    "q = input f16[2,4,16,64]\n"
    "k = input f16[2,1,1024,64]\n"
    "v = input f16[2,1,1024,64]\n"
    "a = matmul(q, k) tb=1\n"
    "b = scale(a) c=0.125\n"
    "p = softmax(b) dim=3\n"
    "o = matmul(p, v)\n";
constexpr const char* kNormedLinear =
    "graph 1\n"
    "x = input f16[16,1024]\n"
    "g = input f16[1024]\n"
    "w = input f16[1024,512]\n"
    "n = rms_norm(x, g) eps=1e-06\n"
    "y = matmul(n, w)\n";
constexpr const char* kGatedMlp =
    "graph 1\n"
    "x = input f16[8,1024]\n"
    "u = input f16[1024,512]\n"
    "w = input f16[1024,512]\n"
    "a = matmul(x, u)\n"
    "s = silu(a)\n"
    "b = matmul(x, w)\n"
    "y = mul(s, b)\n";
constexpr const char* kLora =
    "graph 1\n"
    "x = input f16[16,1024]\n"
    "w = input f16[1024,512]\n"
    "a = input f16[1024,16]\n"
    "b = input f16[16,512]\n"
    "y = matmul(x, w)\n"
    "t = matmul(x, a)\n"
    "u = matmul(t, b)\n"
    "z = add(y, u)\n";
constexpr const char* kWideMlp =
    "graph 1\n"
    "x = input bf16[4,4096]\n"
    "u = input bf16[4096,4096]\n"
    "w = input bf16[4096,4096]\n"
    "a = matmul(x, u)\n"
    "s = silu(a)\n"
    "b = matmul(x, w)\n"
    "y = mul(s, b)\n";
// A weight as torch.nn.Linear keeps it.
constexpr const char* kLinear =
    "graph 1\n"
    "x = input bf16[4,1024]\n"
    "w = input bf16[520,1024]\n"
    "y = matmul(x, w) tb=1\n"
    "z = silu(y)\n";
constexpr const char* kQkNorm =
    "graph 1\n"
    "q = input f16[4,128,64]\n"
    "k = input f16[4,256,64]\n"
    "v = input f16[4,256,64]\n"
    "g = input f16[64]\n"
    "h = input f16[64]\n"
    "m = rms_norm(q, g) eps=1e-06\n"
    "n = rms_norm(k, h) eps=1e-06\n"
    "a = matmul(m, n) tb=1\n"
    "b = scale(a) c=0.125\n"
    "p = softmax(b) dim=2\n"
    "o = matmul(p, v)\n";
constexpr const char* kStrided =
    "graph 1\n"
    "x = input f16[48,80] strides=[96,1]\n"
    "w = input f16[80,40] strides=[1,80]\n"
    "y = matmul(x, w)\n"
    "z = gelu(y)\n";

// Every plain operator by itself, and as the user's graph: sizes that divide nothing.
constexpr const char* kPlain[] = {
    "matmul(x, t)",
    "add(x, y)",
    "sub(x, y)",
    "mul(x, y)",
    "div(x, z)",
    "exp(x)",
    "sqrt(z)",
    "square(x)",
    "relu(x)",
    "silu(x)",
    "gelu(x)",
    "tanh(x)",
    "clamp(x) lo=-0.5 hi=0.25",
    "scale(x) c=0.3",
    "add_constant(x) c=0.3",
    "sum(x) dim=0",
    "sum(x) dim=1",
    "max(x) dim=1",
    "mean(x) dim=0",
    "softmax(x) dim=1",
    "softmax(x) dim=0",
    "rms_norm(x, g) eps=1e-05",
    "mask(x) left=3 right=1",
    "broadcast(r) dims=[37,53]",
    "transpose(x) dims=[1,0]",
};

class GraphGpu : public CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (device_ != nullptr) reopen();
  }
  void TearDown() override {
    session_.reset();
    CudaGpu::TearDown();
  }

  void reopen() {
    session_.reset();
    cache::Store::Options store;
    store.path = folder_.file("cache.db");
    SessionOptions options;
    options.policy.budget_seconds = 20;
    std::unique_ptr<Device> device;
    ASSERT_TRUE(open_cuda_device(0, "", &device).ok());
    session_ = std::make_unique<Session>(std::move(device), cache::Store::open(store), options);
  }

  GraphAnswer ask(const KernelGraph& graph) {
    GraphRequest request;
    request.graph = graph;
    GraphAnswer answer;
    const Status status = gqa::answer(*session_, request, &answer);
    EXPECT_TRUE(status.ok()) << status.message();
    return answer;
  }

  // Searches, runs and judges.
  void expect_right(const std::string& text);
  // Runs on two streams at once, time and again, and judges both.
  void expect_streams_apart(const std::string& text);

  TemporaryFolder folder_;
  std::unique_ptr<Session> session_;
};

// A graph's reference inputs and guarded outputs on the device. Needs the context to be current.
class Bench {
 public:
  Bench(const Driver& driver, const KernelGraph& graph, const GraphAnswer& answer) : driver_(driver) {
    EXPECT_TRUE(reorder(graph, answer.canonical.inputs, answer.canonical.outputs, &graph_).ok());
    EXPECT_TRUE(make_reference(graph_, 7, Effort(8), 2, &reference_).ok());
    for (const TensorBytes& bytes : reference_.inputs) {
      inputs_.push_back(reinterpret_cast<const void*>(allocate(bytes.size())));
      EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(memory_.back(), bytes.data(), bytes.size(), nullptr));
    }
    for (const int output : graph_.outputs()) {
      const auto bytes = static_cast<std::size_t>(guarded_bytes(graph_.spec(output)));
      outputs_.push_back(reinterpret_cast<void*>(allocate(bytes) + kGuardBytes));
      sizes_.push_back(bytes);
    }
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    poison();
  }
  ~Bench() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void poison() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) driver_.cuMemsetD8Async(start(i), kPoison, sizes_[i], nullptr);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
  }
  // Float16 inputs instead of the reference's: absolute values of these deviations, by the inputs' names. What the
  // graph's one output is, exactly and operator by operator.
  void fill(const std::map<std::string, double>& deviations, std::vector<double>* exact, std::vector<double>* naive) {
    std::vector<std::vector<double>> inputs = random_inputs(graph_, 5), outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<std::uint16_t> bits;
      for (double& x : inputs[i]) {
        x = std::min(65504.0, std::abs(x) * deviations.at(graph_.tensor(graph_.inputs()[i]).name));
        x = round_to(x, ElementType::kF16);
        bits.push_back(store(ElementType::kF16, static_cast<float>(x)));
      }
      EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(memory_[i], bits.data(), 2 * bits.size(), nullptr));
      EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    }
    EXPECT_TRUE(evaluate(graph_, inputs, &outputs).ok());
    *exact = outputs[0];
    EXPECT_TRUE(evaluate(graph_, inputs, &outputs, Rounding::kResults).ok());
    *naive = outputs[0];
  }
  // A float16 output.
  std::vector<double> found() const {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(elements(graph_.spec(graph_.outputs()[0]).dims)));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyDtoHAsync(bits.data(), start(0) + kGuardBytes, 2 * bits.size(), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    std::vector<double> values;
    for (const std::uint16_t one : bits) values.push_back(load(ElementType::kF16, one));
    return values;
  }
  ProgramCall call(CUstream stream) const { return {inputs_.data(), outputs_.data(), stream, nullptr}; }
  Verdict judged() const {
    std::vector<TensorBytes> bytes;
    std::vector<OutputBytes> outputs;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      bytes.emplace_back(sizes_[i]);
      driver_.cuMemcpyDtoHAsync(bytes.back().data(), start(i), sizes_[i], nullptr);
    }
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    for (const TensorBytes& one : bytes) outputs.push_back({one.data()});
    return judge(measured(graph_, reference_.outputs, outputs));
  }

 private:
  CUdeviceptr allocate(std::size_t bytes) {
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&memory_.emplace_back(), bytes));
    return memory_.back();
  }
  CUdeviceptr start(std::size_t output) const { return memory_[inputs_.size() + output]; }

  const Driver& driver_;
  KernelGraph graph_;
  ProgramReference reference_;
  std::vector<CUdeviceptr> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<std::size_t> sizes_;
};

void GraphGpu::expect_right(const std::string& text) {
  const KernelGraph graph = graph_of(text);
  const GraphAnswer answer = ask(graph);
  ASSERT_NE(answer.ready, nullptr) << text;
  Bench bench(*driver_, graph, answer);
  const Status launched = answer.ready->loaded->run(bench.call(nullptr));
  ASSERT_TRUE(launched.ok()) << launched.message();
  const Verdict verdict = bench.judged();
  EXPECT_TRUE(verdict.passed) << verdict.reason << "\n" << text << to_text(answer.program);
}

TEST_F(GraphGpu, TheIssuesExample) {
  const KernelGraph graph = softmax_attention(2, 256, 4096, 64);
  const GraphAnswer answer = ask(graph);
  ASSERT_NE(answer.ready, nullptr);
  EXPECT_EQ(unsafe_exponents(answer.program), 0) << to_text(answer.program);
  expect_right(to_text(graph));
}

TEST_F(GraphGpu, AttentionOfManyKinds) {
  for (const char* text : {kSoftcap, kCausal, kGrouped, kQkNorm}) expect_right(text);
}

TEST_F(GraphGpu, FusedLinears) {
  for (const char* text : {kNormedLinear, kGatedMlp, kLora, kLinear}) expect_right(text);
}

double distance(const std::vector<double>& found, const std::vector<double>& exact) {
  double squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) squares += (found[i] - exact[i]) * (found[i] - exact[i]);
  return std::sqrt(squares);
}

// x g is past float16 where (x / norm) g is not.
TEST_F(GraphGpu, AWeightedNormOfLargeRowsIsAsExactAsOperatorByOperator) {
  const KernelGraph graph = graph_of(
      "graph 1\nx = input f16[16,1024]\ng = input f16[1024]\nw = input f16[1024,1024]\nn = rms_norm(x, g) eps=1e-06\n"
      "y = matmul(n, w)\n");
  const GraphAnswer answer = ask(graph);
  ASSERT_NE(answer.ready, nullptr);
  Bench bench(*driver_, graph, answer);
  for (const double x : {1.5e4, 1.0, 1.0 / 256}) {
    std::vector<double> exact, naive;
    bench.fill({{"x", x}, {"g", 4}, {"w", 1.0 / 32}}, &exact, &naive);
    bench.poison();
    ASSERT_TRUE(answer.ready->loaded->run(bench.call(nullptr)).ok());
    const double off = distance(bench.found(), exact), allowed = 1.5 * distance(naive, exact);
    ASSERT_TRUE(std::isfinite(allowed));
    EXPECT_TRUE(off <= allowed) << off << " off, at most " << allowed << " at a deviation of " << x << "\n"
                                << to_text(answer.program);
  }
}

TEST_F(GraphGpu, WideLinearsOfFewRowsAreStreamed) {
  const GraphAnswer answer = ask(graph_of(kWideMlp));
  ASSERT_NE(answer.ready, nullptr);
  EXPECT_NE(std::string::npos, thread_text(answer.program).find("stream=")) << to_text(answer.program);
}

TEST_F(GraphGpu, StridedInputs) { expect_right(kStrided); }

TEST_F(GraphGpu, EveryPlainOperator) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    for (const char* use : kPlain) {
      std::string text = "graph 1\n", of = type;
      text += "x = input " + of + "[37,53]\ny = input " + of + "[37,53]\nu = input " + of + "[37,53]\nt = input " + of +
              "[53,29]\ng = input " + of + "[53]\nr = input " + of + "[37,1]\n";
      text += "q = square(u)\nz = add_constant(q) c=1\n";  // positive
      text += "o = " + std::string(use) + "\noutputs o\n";
      expect_right(text);
      if (HasFailure()) return;
    }
  }
}

TEST_F(GraphGpu, ASecondSessionTakesItFromTheCache) {
  const KernelGraph graph = graph_of(kGatedMlp);
  const KernelGraph first = ask(graph).program;
  reopen();
  const GraphAnswer cached = ask(graph);
  ASSERT_EQ(cached.origin, Origin::kCache);
  EXPECT_EQ(cached.program, first);
  Bench bench(*driver_, graph, cached);
  ASSERT_TRUE(cached.ready->loaded->run(bench.call(nullptr)).ok());
  EXPECT_TRUE(bench.judged().passed);
}

void GraphGpu::expect_streams_apart(const std::string& text) {
  const KernelGraph graph = graph_of(text);
  const GraphAnswer answer = ask(graph);
  Bench one(*driver_, graph, answer), other(*driver_, graph, answer);
  CUstream streams[2];
  for (CUstream& stream : streams) ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(answer.ready->loaded->run(one.call(streams[0])).ok());
    ASSERT_TRUE(answer.ready->loaded->run(other.call(streams[1])).ok());
  }
  for (CUstream stream : streams) {
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(stream));
    driver_->cuStreamDestroy(stream);
  }
  EXPECT_TRUE(one.judged().passed) << one.judged().reason;
  EXPECT_TRUE(other.judged().passed) << other.judged().reason;
}

TEST_F(GraphGpu, TwoStreamsAtOnce) {
  for (const char* text : {kQkNorm, kLora}) expect_streams_apart(text);
}

TEST_F(GraphGpu, AGraphCaptureReplaysIt) {
  const KernelGraph graph = graph_of(kLora);
  const GraphAnswer answer = ask(graph);
  Bench bench(*driver_, graph, answer);
  CUstream stream;
  CUgraph captured = nullptr;
  CUgraphExec replay = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const Status launched = answer.ready->loaded->run(bench.call(stream));
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(stream, &captured));
  ASSERT_TRUE(launched.ok()) << launched.message();
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&replay, captured, 0));
  for (int round = 0; round < 2; ++round) {
    bench.poison();
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(replay, stream));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(stream));
    EXPECT_TRUE(bench.judged().passed) << bench.judged().reason;
  }
  driver_->cuGraphExecDestroy(replay);
  driver_->cuGraphDestroy(captured);
  driver_->cuStreamDestroy(stream);
}

}  // namespace
}  // namespace gqa::test

// graph_program_c_test.cc: from a graph to numbers over C, on the host device, as a program meets it: through libgqa.so
// and gqa_graph.h alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/gqa_graph.h"
#include "tests/runtime/temporary_folder.h"

namespace {

using Dims = std::vector<std::int64_t>;

constexpr DLDataType kFloat16 = {kDLFloat, 16, 1}, kFloat32 = {kDLFloat, 32, 1};

std::string last_error() { return gqa_last_error(); }

// A float tensor with memory of its own, on a multiple of 64 bytes.
struct Tensor {
  explicit Tensor(Dims sizes, float start = 0) : dims(std::move(sizes)) {
    std::size_t count = 1;
    for (const std::int64_t size : dims) count *= static_cast<std::size_t>(size);
    values.resize(count + 16);
    const auto address = reinterpret_cast<std::uintptr_t>(values.data());
    data = values.data() + (64 - address % 64) % 64 / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) data[i] = start == 0 ? 0 : std::sin(start + static_cast<float>(i) * 0.7f);
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(dims.size());
    tensor.dtype = kFloat32;
    tensor.shape = dims.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  Dims dims;
  std::vector<float> values;
  float* data = nullptr;
  DLTensor tensor = {};
};

// softmax(q k) v for one batch, in double.
std::vector<float> naive_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t rows = q.dims[1], size = q.dims[2], keys = k.dims[2];
  std::vector<float> out(static_cast<std::size_t>(rows * size));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<double> weights(static_cast<std::size_t>(keys));
    double total = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < size; ++c) score += double{q.data[i * size + c]} * k.data[c * keys + j];
      total += weights[static_cast<std::size_t>(j)] = std::exp(score);
    }
    for (std::int64_t c = 0; c < size; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) sum += weights[static_cast<std::size_t>(j)] * v.data[j * size + c];
      out[static_cast<std::size_t>(i * size + c)] = static_cast<float>(sum / total);
    }
  }
  return out;
}

class GraphProgramC : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 32, kSize = 16, kKeys = 64;

  GraphProgramC() { open(GQA_TUNE_NOW); }
  ~GraphProgramC() override {
    gqa_program_destroy(program_);
    gqa_graph_destroy(graph_);
    gqa_destroy(handle_);
  }

  void open(gqa_tuning tuning) {
    gqa_program_destroy(program_);
    program_ = nullptr;
    gqa_destroy(handle_);
    gqa_options options = {};
    options.size = sizeof(options);
    options.device = "host";
    options.cache_path = path_.c_str();
    options.threads = 2;
    options.tuning = tuning;
    ASSERT_EQ(gqa_create(&options, &handle_), GQA_OK) << last_error();
  }

  void new_graph() {
    gqa_graph_destroy(graph_);
    ASSERT_EQ(gqa_graph_create(&graph_), GQA_OK);
  }

  gqa_value input(const Dims& dims, DLDataType dtype = kFloat32, const std::int64_t* strides = nullptr) {
    gqa_value made = {};
    EXPECT_EQ(gqa_graph_input(graph_, static_cast<int>(dims.size()), dims.data(), strides, dtype, &made), GQA_OK)
        << last_error();
    return made;
  }

  // The graph on these inputs.
  void attend(gqa_value q, gqa_value k, gqa_value v) {
    gqa_value a, e, s, d, o;
    ASSERT_EQ(gqa_graph_matmul(graph_, q, k, 0, 0, &a), GQA_OK) << last_error();
    ASSERT_EQ(gqa_graph_exp(graph_, a, &e), GQA_OK);
    ASSERT_EQ(gqa_graph_sum(graph_, e, 2, &s), GQA_OK);
    ASSERT_EQ(gqa_graph_div(graph_, e, s, &d), GQA_OK);
    ASSERT_EQ(gqa_graph_matmul(graph_, d, v, 0, 0, &o), GQA_OK) << last_error();
  }
  void attention() {
    new_graph();
    const gqa_value q = input({1, kRows, kSize}), k = input({1, kSize, kKeys}), v = input({1, kKeys, kSize});
    attend(q, k, v);
  }

  void search() {
    gqa_program_destroy(program_);
    ASSERT_EQ(gqa_graph_superoptimize(graph_, handle_, nullptr, &program_), GQA_OK) << last_error();
  }

  gqa_status run(const std::vector<const DLTensor*>& inputs, const std::vector<const DLTensor*>& outputs) {
    return gqa_program_run(program_, inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                           static_cast<int>(outputs.size()), nullptr);
  }
  gqa_status run() { return run({&q_.tensor, &k_.tensor, &v_.tensor}, {&out_.tensor}); }

  void expect_attention() {
    const std::vector<float> expected = naive_attention(q_, k_, v_);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(out_.data[i], expected[i], 2e-5) << "element " << i;
  }

  gqa::test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("cache.db");
  gqa_handle handle_ = nullptr;
  gqa_graph graph_ = nullptr;
  gqa_program program_ = nullptr;
  Tensor q_{{1, kRows, kSize}, 1}, k_{{1, kSize, kKeys}, 2}, v_{{1, kKeys, kSize}, 3}, out_{{1, kRows, kSize}};
};

TEST_F(GraphProgramC, TheExampleGivesTheReference) {
  attention();
  search();
  EXPECT_EQ(gqa_program_from_cache(program_), 0);
  ASSERT_EQ(run(), GQA_OK) << last_error();
  expect_attention();
  int rank = 0;
  std::int64_t dims[8] = {};
  DLDataType dtype = {};
  EXPECT_EQ(gqa_program_inputs(program_), 3);
  EXPECT_EQ(gqa_program_outputs(program_), 1);
  ASSERT_EQ(gqa_program_describe_input(program_, 1, &rank, dims, &dtype), GQA_OK);
  EXPECT_EQ(Dims(dims, dims + rank), (Dims{1, kSize, kKeys}));
  ASSERT_EQ(gqa_program_describe_output(program_, 0, &rank, dims, &dtype), GQA_OK);
  EXPECT_EQ(Dims(dims, dims + rank), (Dims{1, kRows, kSize}));
  EXPECT_EQ(gqa_program_describe_output(program_, 1, &rank, dims, &dtype), GQA_ERROR_OPTION);
  EXPECT_NE(std::string(gqa_program_dot(program_)).find("digraph"), std::string::npos);
}

TEST_F(GraphProgramC, ASecondHandleTakesItFromTheCacheAndGivesTheSameBits) {
  attention();
  search();
  ASSERT_EQ(run(), GQA_OK) << last_error();
  const std::vector<float> first(out_.data, out_.data + kRows * kSize);
  const std::string text = gqa_program_text(program_), told = gqa_program_explain(program_);
  open(GQA_TUNE_CACHED_ONLY);  // it could not search if it wanted to
  search();
  EXPECT_EQ(gqa_program_from_cache(program_), 1);
  EXPECT_EQ(gqa_program_text(program_), text);
  const std::string again = gqa_program_explain(program_);
  EXPECT_NE(again.find("from the cache"), std::string::npos) << again;
  EXPECT_EQ(again.substr(again.find("searched in")), told.substr(told.find("searched in")));
  ASSERT_EQ(run(), GQA_OK) << last_error();
  EXPECT_EQ(std::memcmp(out_.data, first.data(), first.size() * sizeof(float)), 0);
}

TEST_F(GraphProgramC, AnotherOrderOfInputsFindsTheSameProgramAndIsBoundRight) {
  attention();
  search();
  open(GQA_TUNE_CACHED_ONLY);
  new_graph();
  const gqa_value v = input({1, kKeys, kSize}), q = input({1, kRows, kSize}), k = input({1, kSize, kKeys});
  attend(q, k, v);
  search();
  ASSERT_EQ(run({&v_.tensor, &q_.tensor, &k_.tensor}, {&out_.tensor}), GQA_OK) << last_error();
  expect_attention();
}

TEST_F(GraphProgramC, OutputsComeInTheirMarkedOrder) {
  new_graph();
  const gqa_value x = input({4, 8});
  gqa_value squared, doubled;
  ASSERT_EQ(gqa_graph_square(graph_, x, &squared), GQA_OK);
  ASSERT_EQ(gqa_graph_scale(graph_, x, 2, &doubled), GQA_OK);
  ASSERT_EQ(gqa_graph_output(graph_, doubled), GQA_OK);
  ASSERT_EQ(gqa_graph_output(graph_, squared), GQA_OK);
  search();
  Tensor given({4, 8}, 5), first({4, 8}), second({4, 8});
  ASSERT_EQ(run({&given.tensor}, {&first.tensor, &second.tensor}), GQA_OK) << last_error();
  for (int i = 0; i < 32; ++i) {
    EXPECT_FLOAT_EQ(first.data[i], 2 * given.data[i]);
    EXPECT_FLOAT_EQ(second.data[i], given.data[i] * given.data[i]);
  }
}

TEST_F(GraphProgramC, StridesAreAsDeclared) {
  new_graph();
  const std::int64_t strides[] = {16, 1};
  gqa_value y;
  ASSERT_EQ(gqa_graph_exp(graph_, input({4, 8}, kFloat32, strides), &y), GQA_OK) << last_error();
  search();
  Tensor rows({4, 16}, 5), out({4, 8});
  DLTensor view = rows.tensor;
  std::int64_t shape[] = {4, 8}, given[] = {16, 1};
  view.shape = shape;
  view.strides = given;
  ASSERT_EQ(run({&view}, {&out.tensor}), GQA_OK) << last_error();
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(out.data[i], std::exp(rows.data[i / 8 * 16 + i % 8]), 1e-5);
  view.strides = nullptr;
  EXPECT_EQ(run({&view}, {&out.tensor}), GQA_ERROR_STRIDE);
  EXPECT_NE(last_error().find("[16,1]"), std::string::npos) << last_error();
}

TEST_F(GraphProgramC, ManyThreadsRunOneProgram) {
  attention();
  search();
  ASSERT_EQ(run(), GQA_OK) << last_error();
  const std::vector<float> expected(out_.data, out_.data + kRows * kSize);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Tensor out({1, kRows, kSize});
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(run({&q_.tensor, &k_.tensor, &v_.tensor}, {&out.tensor}), GQA_OK);
        EXPECT_EQ(std::memcmp(out.data, expected.data(), expected.size() * sizeof(float)), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GraphProgramC, ProgressIsTold) {
  struct Told {
    std::set<std::string> phases;
    gqa_search_progress last = {};
  } told;
  attention();
  gqa_search_options options = {};
  options.size = sizeof(options);
  options.config = "attention";
  options.progress_user = &told;
  options.progress = [](void* user, const gqa_search_progress* progress) {
    static_cast<Told*>(user)->phases.insert(progress->phase);
    static_cast<Told*>(user)->last = *progress;
  };
  ASSERT_EQ(gqa_graph_superoptimize(graph_, handle_, &options, &program_), GQA_OK) << last_error();
  EXPECT_EQ(told.phases, (std::set<std::string>{"search", "compile", "verify", "time"}));
  EXPECT_GT(told.last.proved, 1);
  EXPECT_GT(told.last.timed, 0);
  EXPECT_GT(told.last.best_us, 0);
}

// ---- what is refused

TEST_F(GraphProgramC, ASearchThatMakesNoSenseIsRefused) {
  attention();
  gqa_search_options options = {};
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, &options, &program_), GQA_ERROR_STRUCT_SIZE);
  options.size = sizeof(options);
  options.config = "attenton";
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, &options, &program_), GQA_ERROR_OPTION);
  EXPECT_NE(last_error().find("attention"), std::string::npos) << last_error();
  options.config = nullptr;
  options.budget = -1;
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, &options, &program_), GQA_ERROR_OPTION);
  options.budget = std::nan("");
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, &options, &program_), GQA_ERROR_OPTION);
  EXPECT_EQ(gqa_graph_superoptimize(nullptr, handle_, nullptr, &program_), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_superoptimize(graph_, nullptr, nullptr, &program_), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  new_graph();
  input({2});
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, nullptr, &program_), GQA_ERROR_OPTION) << "no operator";
  EXPECT_EQ(program_, nullptr);
  open(GQA_TUNE_CACHED_ONLY);
  attention();
  EXPECT_EQ(gqa_graph_superoptimize(graph_, handle_, nullptr, &program_), GQA_ERROR_NOT_CACHED);
}

TEST_F(GraphProgramC, NoProgramIsNoProgram) {
  EXPECT_EQ(run(), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_program_explain(nullptr), nullptr);
  EXPECT_NE(last_error().find("program is NULL"), std::string::npos);
  EXPECT_EQ(gqa_program_inputs(nullptr), 0);
  EXPECT_EQ(gqa_program_describe_input(nullptr, 0, nullptr, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  gqa_program_destroy(nullptr);
}

TEST_F(GraphProgramC, TensorsThatDoNotMatchAreRefusedAndNothingIsWritten) {
  attention();
  search();
  const DLTensor q = q_.tensor, k = k_.tensor, v = v_.tensor, out = out_.tensor;
  const auto refused = [&](gqa_status expected, const std::string& words, const std::vector<const DLTensor*>& inputs,
                           const std::vector<const DLTensor*>& outputs) {
    EXPECT_EQ(gqa_status_string(run(inputs, outputs)), std::string(gqa_status_string(expected))) << last_error();
    EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
  };
  refused(GQA_ERROR_OPTION, "2 inputs were given, expected 3", {&q, &k}, {&out});
  refused(GQA_ERROR_OPTION, "0 outputs were given, expected 1", {&q, &k, &v}, {});
  refused(GQA_ERROR_NULL_ARGUMENT, "input 1 is NULL", {&q, nullptr, &v}, {&out});
  DLTensor bad = k;
  bad.ndim = 2;
  refused(GQA_ERROR_RANK, "input 1 has 2 dimensions, expected 3: [1,16,64]", {&q, &bad, &v}, {&out});
  refused(GQA_ERROR_SHAPE, "input 1 has sizes [1,64,16], expected [1,16,64]", {&q, &v, &k}, {&out});
  bad = k;
  bad.dtype = kFloat16;
  refused(GQA_ERROR_DTYPE, "input 1 is float16, expected float32", {&q, &bad, &v}, {&out});
  bad = k;
  bad.device = {kDLCUDA, 0};
  refused(GQA_ERROR_DEVICE, "input 1 is on cuda:0", {&q, &bad, &v}, {&out});
  bad = k;
  bad.shape = nullptr;
  refused(GQA_ERROR_NULL_ARGUMENT, "input 1's shape is NULL", {&q, &bad, &v}, {&out});
  bad = k;
  std::int64_t strides[] = {kSize * kKeys, 1, kSize};
  bad.strides = strides;
  refused(GQA_ERROR_STRIDE, "input 1 has strides [1024,1,16], expected [1024,64,1]", {&q, &bad, &v}, {&out});
  bad = k;
  bad.data = nullptr;
  refused(GQA_ERROR_NULL_ARGUMENT, "input 1's data is NULL", {&q, &bad, &v}, {&out});
  bad = k;
  bad.byte_offset = 4;
  refused(GQA_ERROR_ALIGNMENT, "expected a multiple of 16 bytes", {&q, &bad, &v}, {&out});
  bad = out;
  bad.data = q_.data;
  refused(GQA_ERROR_ALIAS, "which overlap input 0's", {&q, &k, &v}, {&bad});
  for (std::int64_t i = 0; i < kRows * kSize; ++i) ASSERT_EQ(out_.data[i], 0);
  strides[0] = 7;  // along a dimension of size 1 nothing is ever stepped
  strides[1] = kKeys;
  strides[2] = 1;
  bad = k;
  bad.strides = strides;
  EXPECT_EQ(run({&q, &bad, &v}, {&out}), GQA_OK) << last_error();
}

TEST_F(GraphProgramC, OutputsMayNotOverlapEachOther) {
  new_graph();
  const gqa_value x = input({4, 8});
  gqa_value y, z;
  ASSERT_EQ(gqa_graph_exp(graph_, x, &y), GQA_OK);
  ASSERT_EQ(gqa_graph_square(graph_, x, &z), GQA_OK);
  search();
  Tensor given({4, 8}, 5), out({8, 8});
  DLTensor first = out.tensor, second = out.tensor;
  std::int64_t shape[] = {4, 8};
  first.shape = second.shape = shape;
  second.byte_offset = 4 * 8 * sizeof(float) - 16;
  EXPECT_EQ(run({&given.tensor}, {&first, &second}), GQA_ERROR_ALIAS);
  EXPECT_NE(last_error().find("output 1"), std::string::npos) << last_error();
  second.byte_offset += 16;
  EXPECT_EQ(run({&given.tensor}, {&first, &second}), GQA_OK) << last_error();
}

}  // namespace

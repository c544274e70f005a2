// graph_c_test.cc: building graphs over C, as a program meets it: through libgqa.so and gqa_graph.h alone.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/gqa_graph.h"

namespace {

using Dims = std::vector<std::int64_t>;

constexpr DLDataType kF16 = {kDLFloat, 16, 1}, kBF16 = {kDLBfloat, 16, 1}, kF32 = {kDLFloat, 32, 1};

std::string error() { return gqa_last_error(); }

class GraphC : public testing::Test {
 protected:
  GraphC() { EXPECT_EQ(gqa_graph_create(&graph_), GQA_OK); }
  ~GraphC() override { gqa_graph_destroy(graph_); }

  gqa_value input(const Dims& dims, DLDataType dtype = kF16) {
    gqa_value made = {};
    EXPECT_EQ(gqa_graph_input(graph_, static_cast<int>(dims.size()), dims.data(), nullptr, dtype, &made), GQA_OK)
        << error();
    return made;
  }

  Dims dims(gqa_value value) {
    int rank = -1;
    std::int64_t sizes[8] = {};
    EXPECT_EQ(gqa_graph_describe(graph_, value, &rank, sizes, nullptr), GQA_OK) << error();
    return Dims(sizes, sizes + rank);
  }

  std::string text() { return gqa_graph_text(graph_); }

  // The call was refused with this status, says each of the words, and left the graph as it was.
  template <typename Call>
  void expect_refused(gqa_status expected, const std::vector<std::string>& words, const Call& call) {
    const std::string before = text();
    gqa_value result = {77, 77};
    EXPECT_EQ(gqa_status_string(call(&result)), std::string(gqa_status_string(expected))) << error();
    const std::string message = error();
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
    EXPECT_EQ(text(), before);
    EXPECT_TRUE(result.graph == 0 || result.graph == 77) << "a refused call gave a value";
  }

  gqa_graph graph_ = nullptr;
};

TEST_F(GraphC, AttentionAsTheIssueWritesIt) {
  const gqa_value q = input({2, 256, 64}), k = input({2, 64, 4096}), v = input({2, 4096, 64});
  gqa_value a, e, s, d, o;
  ASSERT_EQ(gqa_graph_matmul(graph_, q, k, 0, 0, &a), GQA_OK);
  ASSERT_EQ(gqa_graph_exp(graph_, a, &e), GQA_OK);
  ASSERT_EQ(gqa_graph_sum(graph_, e, 2, &s), GQA_OK);
  ASSERT_EQ(gqa_graph_div(graph_, e, s, &d), GQA_OK);
  ASSERT_EQ(gqa_graph_matmul(graph_, d, v, 0, 0, &o), GQA_OK);
  EXPECT_EQ(error(), "");
  EXPECT_EQ(dims(a), (Dims{2, 256, 4096}));
  EXPECT_EQ(dims(s), (Dims{2, 256, 1}));
  EXPECT_EQ(dims(o), (Dims{2, 256, 64}));
  EXPECT_EQ(text(),
            "graph 1\n"
            "t0 = input f16[2,256,64]\n"
            "t1 = input f16[2,64,4096]\n"
            "t2 = input f16[2,4096,64]\n"
            "t3 = matmul(t0, t1)\n"
            "t4 = exp(t3)\n"
            "t5 = sum(t4) dim=2\n"
            "t6 = div(t4, t5)\n"
            "t7 = matmul(t6, t2)\n");
}

using Unary = gqa_status (*)(gqa_graph, gqa_value, gqa_value*);
using Binary = gqa_status (*)(gqa_graph, gqa_value, gqa_value, gqa_value*);
using Along = gqa_status (*)(gqa_graph, gqa_value, int, gqa_value*);

// Each function is the operator of its name: the text says which one was put.
TEST_F(GraphC, EachOperatorIsItself) {
  const gqa_value x = input({4, 6}), y = input({4, 6});
  const std::vector<std::pair<std::string, Unary>> unary = {
      {"exp", gqa_graph_exp},   {"sqrt", gqa_graph_sqrt}, {"square", gqa_graph_square},
      {"relu", gqa_graph_relu}, {"silu", gqa_graph_silu}, {"reciprocal", gqa_graph_reciprocal},
      {"gelu", gqa_graph_gelu}, {"tanh", gqa_graph_tanh}};
  const std::vector<std::pair<std::string, Binary>> binary = {
      {"add", gqa_graph_add}, {"sub", gqa_graph_sub}, {"mul", gqa_graph_mul}, {"div", gqa_graph_div}};
  const std::vector<std::pair<std::string, Along>> along = {
      {"sum", gqa_graph_sum}, {"max", gqa_graph_max}, {"mean", gqa_graph_mean}, {"softmax", gqa_graph_softmax}};
  gqa_value made;
  std::string expected = text();
  const auto expect = [&](gqa_status status, const std::string& line) {
    ASSERT_EQ(status, GQA_OK) << line << ": " << error();
    expected += "t" + std::to_string(made.index) + " = " + line + "\n";
    EXPECT_EQ(text(), expected);
  };
  for (const auto& [name, function] : unary) expect(function(graph_, x, &made), name + "(t0)");
  for (const auto& [name, function] : binary) expect(function(graph_, x, y, &made), name + "(t0, t1)");
  for (const auto& [name, function] : along) expect(function(graph_, x, 0, &made), name + "(t0) dim=0");
  expect(gqa_graph_matmul(graph_, x, y, 0, 1, &made), "matmul(t0, t1) tb=1");
  expect(gqa_graph_matmul(graph_, x, y, 1, 0, &made), "matmul(t0, t1) ta=1");
  expect(gqa_graph_clamp(graph_, x, -1, 2.5, &made), "clamp(t0) lo=-1 hi=2.5");
  expect(gqa_graph_clamp(graph_, x, 0, INFINITY, &made), "clamp(t0) lo=0");
  expect(gqa_graph_scale(graph_, x, 0.125, &made), "scale(t0) c=0.125");
  expect(gqa_graph_add_constant(graph_, x, 3, &made), "add_constant(t0) c=3");
  expect(gqa_graph_rms_norm(graph_, x, nullptr, 1e-5, &made), "rms_norm(t0) eps=1e-05");
  expect(gqa_graph_rms_norm(graph_, x, &y, 0, &made), "rms_norm(t0, t1)");
  expect(gqa_graph_mask(graph_, x, -1, 0, &made), "mask(t0) right=0");
  expect(gqa_graph_mask(graph_, x, 5, 2, &made), "mask(t0) left=5 right=2");
  expect(gqa_graph_mask(graph_, x, std::numeric_limits<std::int64_t>::max() - 1, -7, &made), "mask(t0)");
  expect(gqa_graph_broadcast(graph_, x, 3, Dims{2, 4, 6}.data(), &made), "broadcast(t0) dims=[2,4,6]");
  const int order[] = {1, 0};
  expect(gqa_graph_transpose(graph_, x, order, &made), "transpose(t0) dims=[1,0]");
  EXPECT_EQ(dims(made), (Dims{6, 4}));
}

TEST_F(GraphC, DimensionsAreCountedFromTheEndToo) {
  gqa_value made;
  ASSERT_EQ(gqa_graph_sum(graph_, input({4, 6, 8}), -2, &made), GQA_OK);
  EXPECT_EQ(dims(made), (Dims{4, 1, 8}));
}

TEST_F(GraphC, DescribesRankSizesAndDtype) {
  for (const DLDataType dtype : {kF16, kBF16, kF32}) {
    const gqa_value x = input({3, 5}, dtype);
    DLDataType found = {};
    ASSERT_EQ(gqa_graph_describe(graph_, x, nullptr, nullptr, &found), GQA_OK);
    EXPECT_TRUE(found.code == dtype.code && found.bits == dtype.bits && found.lanes == 1);
    EXPECT_EQ(dims(x), (Dims{3, 5}));
  }
  EXPECT_EQ(dims(input({1, 2, 3, 4, 5, 6, 7, 8})), (Dims{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(GraphC, StridesAndNamesAreKept) {
  gqa_value x;
  ASSERT_EQ(gqa_graph_input(graph_, 2, Dims{4, 6}.data(), Dims{1, 4}.data(), kBF16, &x), GQA_OK);
  ASSERT_EQ(gqa_graph_rename(graph_, x, "keys"), GQA_OK) << error();
  ASSERT_EQ(gqa_graph_rename(graph_, x, "keys"), GQA_OK) << "its own name is not taken";
  EXPECT_EQ(text(), "graph 1\nkeys = input bf16[4,6] strides=[1,4]\n");
  gqa_value found;
  ASSERT_EQ(gqa_graph_find(graph_, "keys", &found), GQA_OK);
  EXPECT_EQ(found.index, x.index);
  const gqa_value y = input({2});
  expect_refused(GQA_ERROR_OPTION, {"keys", "taken"}, [&](gqa_value*) { return gqa_graph_rename(graph_, y, "keys"); });
  expect_refused(GQA_ERROR_OPTION, {"'2 x'", "letter"}, [&](gqa_value*) { return gqa_graph_rename(graph_, y, "2 x"); });
  expect_refused(GQA_ERROR_OPTION, {"'gone'"}, [&](gqa_value* r) { return gqa_graph_find(graph_, "gone", r); });
}

TEST_F(GraphC, OutputsAreMarkedInOrder) {
  const gqa_value x = input({2, 2});
  gqa_value e, r;
  ASSERT_EQ(gqa_graph_exp(graph_, x, &e), GQA_OK);
  ASSERT_EQ(gqa_graph_relu(graph_, e, &r), GQA_OK);
  ASSERT_EQ(gqa_graph_output(graph_, r), GQA_OK);
  ASSERT_EQ(gqa_graph_output(graph_, e), GQA_OK);
  EXPECT_NE(text().find("outputs t2, t1\n"), std::string::npos);
  expect_refused(GQA_ERROR_OPTION, {"t2", "twice"}, [&](gqa_value*) { return gqa_graph_output(graph_, r); });
  expect_refused(GQA_ERROR_OPTION, {"t0", "result"}, [&](gqa_value*) { return gqa_graph_output(graph_, x); });
}

TEST_F(GraphC, InputsThatCannotBeAreRefused) {
  const Dims nine(9, 1);
  const auto put = [&](int rank, const std::int64_t* sizes, const std::int64_t* strides, DLDataType dtype) {
    return [=, this](gqa_value* r) { return gqa_graph_input(graph_, rank, sizes, strides, dtype, r); };
  };
  const Dims two = {4, 6}, zero = {4, 0}, negative = {-4, 6}, vast = {1 << 30, 1 << 30}, back = {6, -1};
  expect_refused(GQA_ERROR_RANK, {"9", "1 to 8"}, put(9, nine.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_RANK, {"rank is 0"}, put(0, two.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_RANK, {"rank is -3"}, put(-3, two.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_NULL_ARGUMENT, {"dims is NULL"}, put(2, nullptr, nullptr, kF16));
  expect_refused(GQA_ERROR_SIZE, {"[4,0]", "positive"}, put(2, zero.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_SIZE, {"[-4,6]", "positive"}, put(2, negative.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_SIZE, {"1073741824", "at most"}, put(2, vast.data(), nullptr, kF16));
  expect_refused(GQA_ERROR_STRIDE, {"[6,-1]", "negative"}, put(2, two.data(), back.data(), kF16));
  expect_refused(GQA_ERROR_DTYPE, {"float64", "float16, bfloat16 or float32"},
                 put(2, two.data(), nullptr, {kDLFloat, 64, 1}));
  expect_refused(GQA_ERROR_DTYPE, {"int8"}, put(2, two.data(), nullptr, {kDLInt, 8, 1}));
  expect_refused(GQA_ERROR_DTYPE, {"float16x2"}, put(2, two.data(), nullptr, {kDLFloat, 16, 2}));
  EXPECT_EQ(gqa_graph_input(graph_, 2, two.data(), nullptr, kF16, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_input(nullptr, 2, two.data(), nullptr, kF16, nullptr), GQA_ERROR_NULL_ARGUMENT);
}

TEST_F(GraphC, OperandsThatDoNotFitAreRefused) {
  const gqa_value x = input({4, 6}), y = input({5, 6}), line = input({6}), other = input({4, 6}, kBF16);
  expect_refused(GQA_ERROR_SHAPE, {"add of [4,6] and [5,6]", "4 and 5"},
                 [&](gqa_value* r) { return gqa_graph_add(graph_, x, y, r); });
  expect_refused(GQA_ERROR_SHAPE, {"matmul of [4,6] and [5,6]", "inner dimensions are 6 and 5"},
                 [&](gqa_value* r) { return gqa_graph_matmul(graph_, x, y, 0, 0, r); });
  expect_refused(GQA_ERROR_RANK, {"matmul", "rank 2"},
                 [&](gqa_value* r) { return gqa_graph_matmul(graph_, x, line, 0, 0, r); });
  expect_refused(GQA_ERROR_DTYPE, {"f16 and bf16", "float32"},
                 [&](gqa_value* r) { return gqa_graph_mul(graph_, x, other, r); });
  for (const int dim : {2, -3, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    expect_refused(GQA_ERROR_RANK, {"from -2 to 1", std::to_string(dim)},
                   [&](gqa_value* r) { return gqa_graph_sum(graph_, x, dim, r); });
  }
  expect_refused(GQA_ERROR_RANK, {"mask", "rank 2"},
                 [&](gqa_value* r) { return gqa_graph_mask(graph_, line, -1, 0, r); });
  expect_refused(GQA_ERROR_SHAPE, {"broadcast of [4,6]", "6 and 7"}, [&](gqa_value* r) {
    return gqa_graph_broadcast(graph_, x, 2, Dims{4, 7}.data(), r);
  });
  expect_refused(GQA_ERROR_RANK, {"rank is 9"},
                 [&](gqa_value* r) { return gqa_graph_broadcast(graph_, x, 9, Dims(9, 1).data(), r); });
  expect_refused(GQA_ERROR_NULL_ARGUMENT, {"dims"},
                 [&](gqa_value* r) { return gqa_graph_broadcast(graph_, x, 2, nullptr, r); });
  const int twice[] = {0, 0};
  expect_refused(GQA_ERROR_SHAPE, {"[0,0]", "an order"},
                 [&](gqa_value* r) { return gqa_graph_transpose(graph_, x, twice, r); });
  expect_refused(GQA_ERROR_NULL_ARGUMENT, {"order"},
                 [&](gqa_value* r) { return gqa_graph_transpose(graph_, x, nullptr, r); });
  expect_refused(GQA_ERROR_SHAPE, {"rms_norm", "[4,6] and [5,6]"},
                 [&](gqa_value* r) { return gqa_graph_rms_norm(graph_, x, &y, 0, r); });
}

TEST_F(GraphC, ConstantsThatMeanNothingAreRefused) {
  const gqa_value x = input({4, 6});
  for (const double wild : {double(NAN), double(INFINITY)}) {
    expect_refused(GQA_ERROR_OPTION, {"scale", "finite"},
                   [&](gqa_value* r) { return gqa_graph_scale(graph_, x, wild, r); });
    expect_refused(GQA_ERROR_OPTION, {"finite"},
                   [&](gqa_value* r) { return gqa_graph_add_constant(graph_, x, wild, r); });
    expect_refused(GQA_ERROR_OPTION, {"finite"},
                   [&](gqa_value* r) { return gqa_graph_rms_norm(graph_, x, nullptr, wild, r); });
  }
  expect_refused(GQA_ERROR_OPTION, {"rms_norm", "-1"},
                 [&](gqa_value* r) { return gqa_graph_rms_norm(graph_, x, nullptr, -1, r); });
  expect_refused(GQA_ERROR_OPTION, {"clamp", "lo <= hi"},
                 [&](gqa_value* r) { return gqa_graph_clamp(graph_, x, 2, 1, r); });
  expect_refused(GQA_ERROR_OPTION, {"clamp"}, [&](gqa_value* r) { return gqa_graph_clamp(graph_, x, NAN, 1, r); });
}

TEST_F(GraphC, ValuesOfElsewhereAreRefused) {
  gqa_graph second = nullptr;
  ASSERT_EQ(gqa_graph_create(&second), GQA_OK);
  const gqa_value x = input({4, 6});
  gqa_value y = {};
  ASSERT_EQ(gqa_graph_input(second, 2, Dims{4, 6}.data(), nullptr, kF16, &y), GQA_OK);
  EXPECT_NE(x.graph, y.graph);
  expect_refused(GQA_ERROR_OPTION, {"operand 2 of add", "graph " + std::to_string(y.graph)},
                 [&](gqa_value* r) { return gqa_graph_add(graph_, x, y, r); });
  expect_refused(GQA_ERROR_OPTION, {"of no graph", "status"},
                 [&](gqa_value* r) { return gqa_graph_exp(graph_, {}, r); });
  for (const int index : {-1, 1, 1 << 30}) {
    expect_refused(GQA_ERROR_OPTION, {std::to_string(index), "the graph has 1"}, [&](gqa_value* r) {
      return gqa_graph_exp(graph_, {x.graph, index}, r);
    });
  }
  expect_refused(GQA_ERROR_OPTION, {"this is graph"}, [&](gqa_value*) { return gqa_graph_output(graph_, y); });
  gqa_graph_destroy(second);
  expect_refused(GQA_ERROR_OPTION, {"this is graph"}, [&](gqa_value* r) { return gqa_graph_exp(graph_, y, r); });
}

TEST_F(GraphC, ARefusedCallGivesAValueThatIsRefused) {
  const gqa_value x = input({4, 6}), y = input({5, 6});
  gqa_value sum = x;
  ASSERT_EQ(gqa_graph_add(graph_, x, y, &sum), GQA_ERROR_SHAPE);
  expect_refused(GQA_ERROR_OPTION, {"of no graph"}, [&](gqa_value* r) { return gqa_graph_exp(graph_, sum, r); });
}

TEST_F(GraphC, NullsAreRefused) {
  const gqa_value x = input({4, 6});
  gqa_value made;
  EXPECT_EQ(gqa_graph_create(nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_exp(nullptr, x, &made), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_exp(graph_, x, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_output(nullptr, x), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_describe(nullptr, x, nullptr, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_rename(graph_, x, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_find(graph_, nullptr, &made), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_graph_parse("graph 1\n", nullptr), GQA_ERROR_NULL_ARGUMENT);
  gqa_graph parsed = graph_;
  EXPECT_EQ(gqa_graph_parse(nullptr, &parsed), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(parsed, nullptr);
  for (const auto text_of : {gqa_graph_text, gqa_graph_json, gqa_graph_dot, gqa_graph_hash}) {
    EXPECT_EQ(text_of(nullptr), nullptr);
    EXPECT_NE(error().find("graph is NULL"), std::string::npos);
  }
  gqa_graph_destroy(nullptr);
}

// silu(x w) in two orders of construction, with names and without.
std::string gate(bool weight_first, const char* name) {
  gqa_graph graph = nullptr;
  EXPECT_EQ(gqa_graph_create(&graph), GQA_OK);
  const Dims x_dims = {4, 6}, w_dims = {6, 8};
  gqa_value x, w, y, z;
  if (weight_first) gqa_graph_input(graph, 2, w_dims.data(), nullptr, kF16, &w);
  gqa_graph_input(graph, 2, x_dims.data(), nullptr, kF16, &x);
  if (!weight_first) gqa_graph_input(graph, 2, w_dims.data(), nullptr, kF16, &w);
  EXPECT_EQ(gqa_graph_matmul(graph, x, w, 0, 0, &y), GQA_OK);
  EXPECT_EQ(gqa_graph_silu(graph, y, &z), GQA_OK);
  EXPECT_EQ(name == nullptr ? GQA_OK : gqa_graph_rename(graph, z, name), GQA_OK);
  const std::string hash = gqa_graph_hash(graph);
  gqa_graph_destroy(graph);
  return hash;
}

TEST_F(GraphC, TheHashForgetsNamesAndOrder) {
  const std::string hash = gate(false, nullptr);
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(gate(true, "gate"), hash);
  EXPECT_NE(std::string(gqa_graph_hash(graph_)), hash);
}

TEST_F(GraphC, TextAndJsonReadBack) {
  const gqa_value x = input({4, 6});
  gqa_value s, m;
  ASSERT_EQ(gqa_graph_softmax(graph_, x, -1, &s), GQA_OK);
  ASSERT_EQ(gqa_graph_mask(graph_, s, 3, 0, &m), GQA_OK);
  ASSERT_EQ(gqa_graph_output(graph_, m), GQA_OK);
  const std::string given = text(), json = gqa_graph_json(graph_);
  for (const std::string& form : {given, json, " \n" + json}) {
    gqa_graph parsed = nullptr;
    ASSERT_EQ(gqa_graph_parse(form.c_str(), &parsed), GQA_OK) << error();
    EXPECT_EQ(gqa_graph_text(parsed), given);
    gqa_value found;
    ASSERT_EQ(gqa_graph_find(parsed, "t1", &found), GQA_OK);
    EXPECT_EQ(gqa_graph_exp(parsed, found, &found), GQA_OK) << "a graph that was read can grow";
    gqa_graph_destroy(parsed);
  }
  const char* text_kept = gqa_graph_text(graph_);  // outlives the calls for the other forms
  const std::string dot = gqa_graph_dot(graph_);
  EXPECT_EQ(gqa_graph_hash(graph_), std::string(gqa_graph_hash(graph_)));
  EXPECT_EQ(text_kept, given);
  EXPECT_EQ(dot.rfind("digraph", 0), 0u);
  EXPECT_NE(dot.find("softmax"), std::string::npos);
}

TEST_F(GraphC, TextsThatAreNoGraphAreRefused) {
  for (const char* wrong : {"", "graph 2\n", "graph 1\nx = input f64[2]\n", "graph 1\ny = exp(x)\n", "{", "{}",
                            "{\"version\":1}", "graph 1\nx = input f16[2]\ny = frobnicate(x)\n"}) {
    gqa_graph parsed = graph_;
    EXPECT_NE(gqa_graph_parse(wrong, &parsed), GQA_OK) << wrong;
    EXPECT_EQ(parsed, nullptr);
    EXPECT_NE(error(), "");
  }
}

TEST(GraphsC, ManyThreadsMakeGraphsOfTheirOwn) {
  std::vector<std::vector<std::uint32_t>> serials(4);
  std::vector<std::thread> threads;
  for (auto& mine : serials) {
    threads.emplace_back([&mine] {
      for (int round = 0; round < 50; ++round) {
        gqa_graph graph = nullptr;
        gqa_value x = {};
        if (gqa_graph_create(&graph) != GQA_OK) return;
        gqa_graph_input(graph, 2, Dims{4, 6}.data(), nullptr, kF16, &x);
        mine.push_back(x.graph);
        gqa_graph_destroy(graph);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint32_t> all;
  for (const auto& mine : serials) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 200u);
  EXPECT_FALSE(all.contains(0));
}

}  // namespace

// graph_test.cc: gqa.hpp's graphs: each operator is the C function of its name; errors are exceptions with a status.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "gqa.hpp"
#include "testing.h"

namespace {

using gqa::test::status_of;

std::string last_line(const gqa::Graph& graph) {
  const std::string text = graph.text();
  const auto begin = text.rfind('\n', text.size() - 2) + 1;
  const std::string line = text.substr(begin, text.size() - 1 - begin);
  return line.substr(line.find(" = ") + 3);
}

TEST(CppGraph, OperatorsAndFunctions) {
  gqa::Graph graph;
  const gqa::Value x = graph.input({4, 6}, gqa::float16), y = graph.input({4, 6}, gqa::float16);
#define GQA_EXPECT(expression, line) \
  (void)(expression);                \
  EXPECT_EQ(last_line(graph), line) << #expression
  GQA_EXPECT(x + y, "add(t0, t1)");
  GQA_EXPECT(x - y, "sub(t0, t1)");
  GQA_EXPECT(x * y, "mul(t0, t1)");
  GQA_EXPECT(x / y, "div(t0, t1)");
  GQA_EXPECT(-x, "scale(t0) c=-1");
  GQA_EXPECT(x + 2, "add_constant(t0) c=2");
  GQA_EXPECT(2 + x, "add_constant(t0) c=2");
  GQA_EXPECT(x - 2, "add_constant(t0) c=-2");
  GQA_EXPECT(x * 0.5, "scale(t0) c=0.5");
  GQA_EXPECT(0.5 * x, "scale(t0) c=0.5");
  GQA_EXPECT(x / 4, "scale(t0) c=0.25");
  GQA_EXPECT(1 / x, "reciprocal(t0)");
  GQA_EXPECT(exp(x), "exp(t0)");
  GQA_EXPECT(sqrt(x), "sqrt(t0)");
  GQA_EXPECT(square(x), "square(t0)");
  GQA_EXPECT(relu(x), "relu(t0)");
  GQA_EXPECT(silu(x), "silu(t0)");
  GQA_EXPECT(gelu(x), "gelu(t0)");
  GQA_EXPECT(tanh(x), "tanh(t0)");
  GQA_EXPECT(clamp(x, -1, 1), "clamp(t0) lo=-1 hi=1");
  GQA_EXPECT(sum(x, 0), "sum(t0) dim=0");
  GQA_EXPECT(max(x, 0), "max(t0) dim=0");
  GQA_EXPECT(mean(x, 0), "mean(t0) dim=0");
  GQA_EXPECT(softmax(x), "softmax(t0) dim=1");
  GQA_EXPECT(rms_norm(x, 0.5), "rms_norm(t0) eps=0.5");
  GQA_EXPECT(rms_norm(x, y, 0.5), "rms_norm(t0, t1) eps=0.5");
  GQA_EXPECT(causal_mask(x), "mask(t0) right=0");
  GQA_EXPECT(mask(x, 3, 1), "mask(t0) left=3 right=1");
  GQA_EXPECT(matmul(x, y, false, true), "matmul(t0, t1) tb=1");
  GQA_EXPECT(broadcast(x, {2, 4, 6}), "broadcast(t0) dims=[2,4,6]");
  GQA_EXPECT(transpose(x, {1, 0}), "transpose(t0) dims=[1,0]");
#undef GQA_EXPECT
  const gqa::Value shifted = 3 - x;
  EXPECT_NE(graph.text().find("scale(t0) c=-1\n"), std::string::npos);
  EXPECT_EQ(last_line(graph).substr(last_line(graph).find(' ')), " c=3");
  EXPECT_EQ(shifted.dims(), (gqa::Dims{4, 6}));
}

TEST(CppGraph, GraphsMoveAndReadBack) {
  gqa::Graph graph;
  const gqa::Value x = graph.input({4, 6}, gqa::bfloat16, {1, 4});
  x.rename("x");
  const gqa::Value y = silu(x);
  graph.output(y);
  gqa::Graph moved = std::move(graph);
  moved.output(exp(y));
  const gqa::Graph read = gqa::Graph::parse(moved.json()), again = gqa::Graph::parse(moved.text());
  EXPECT_EQ(read.text(), moved.text());
  EXPECT_EQ(again.hash(), moved.hash());
  EXPECT_EQ(read.find("x").dims(), (gqa::Dims{4, 6}));
  EXPECT_EQ(read.find("x").dtype().code, kDLBfloat);
  EXPECT_EQ(moved.dot().rfind("digraph", 0), 0u);
}

TEST(CppGraph, ErrorsAreExceptions) {
  gqa::Graph graph, other;
  const gqa::Value x = graph.input({4, 6}, gqa::float16), y = graph.input({5, 6}, gqa::float16);
  EXPECT_EQ(status_of([&] { (void)(x + y); }), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { (void)(x / 0); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { (void)exp(gqa::Value()); }), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(status_of([&] { (void)(other.input({4, 6}, gqa::float16) + x); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { graph.input({4, 6}, gqa::float16, {1}); }), GQA_ERROR_STRIDE);
  EXPECT_EQ(status_of([&] { graph.input({4, 6}, {kDLInt, 8, 1}); }), GQA_ERROR_DTYPE);
  EXPECT_EQ(status_of([&] { (void)transpose(x, {0}); }), GQA_ERROR_RANK);
  EXPECT_EQ(status_of([&] { gqa::Graph::parse("graph 3"); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { gqa::Handle("tpu"); }), GQA_ERROR_OPTION);
}

TEST(CppTensor, CopiesPointAtTheirOwnSizes) {
  float data[6] = {};
  gqa::Tensor first(data, {2, 3}, gqa::float32, {kDLCPU, 0}, {1, 2});
  gqa::Tensor second = first;
  EXPECT_NE(first.get()->shape, second.get()->shape);
  EXPECT_EQ(second.get()->shape, second.dims().data());
  first = gqa::Tensor(data, {6}, gqa::float32);
  EXPECT_EQ(first.get()->shape[0], 6);
  EXPECT_EQ(first.get()->strides, nullptr);
  EXPECT_EQ(second.get()->strides[1], 2);
}

}  // namespace

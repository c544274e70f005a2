// graphs.h: small graphs that many graph tests begin with.
// Owns: the softmax attention and helpers to write attributes, inputs and statuses in a line.
// Never: asserts more than that what it built is valid.
// Threads: pure functions.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "search/graph/ir/graph_text.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/graph/prove/evaluate.h"
#include "search/problem/problem.h"
#include "tests/search/from_text.h"

namespace gqa {

inline Attributes dim(std::int64_t at) {
  Attributes attributes;
  attributes.dim = at;
  return attributes;
}
inline Attributes factor(double c, std::int64_t count = 1) {
  Attributes attributes;
  attributes.factor = c;
  attributes.count = count;
  return attributes;
}
inline Attributes order(Dims dims) {
  Attributes attributes;
  attributes.dims = std::move(dims);
  return attributes;
}
inline Attributes window(std::int64_t left, std::int64_t right) {
  Attributes attributes;
  attributes.left = left;
  attributes.right = right;
  return attributes;
}
inline Attributes transposed(bool a, bool b) {
  Attributes attributes;
  attributes.transpose_a = a;
  attributes.transpose_b = b;
  return attributes;
}
inline Attributes epsilon(double eps) {
  Attributes attributes;
  attributes.epsilon = eps;
  return attributes;
}

inline KernelGraph finish(const KernelBuilder& builder) {
  KernelGraph graph;
  const Status status = builder.finish(&graph);
  EXPECT_TRUE(status.ok()) << status.message();
  return graph;
}

inline KernelGraph graph_of(std::string_view text) {
  KernelGraph graph;
  const Status status = parse(text, &graph);
  EXPECT_TRUE(status.ok()) << status.message() << "\nin\n" << text;
  return graph;
}

// softmax(Q K) V as a user writes it, without a maximum.
inline KernelGraph softmax_attention(std::int64_t batch, std::int64_t rows, std::int64_t keys, std::int64_t size) {
  KernelBuilder graph;
  const int q = graph.input({{batch, rows, size}}, "q"), k = graph.input({{batch, size, keys}}, "k"),
            v = graph.input({{batch, keys, size}}, "v");
  const int e = graph.add(Op::kExp, {graph.add(Op::kMatmul, {q, k}, {}, "a")}, {}, "e");
  const int s = graph.add(Op::kSum, {e}, dim(2), "s");
  graph.add(Op::kMatmul, {graph.add(Op::kDiv, {e, s}, {}, "d"), v}, {}, "o");
  return finish(graph);
}

inline std::vector<std::vector<double>> random_inputs(const KernelGraph& graph, unsigned seed, double scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<std::vector<double>> inputs;
  for (const int input : graph.inputs()) {
    inputs.emplace_back(static_cast<std::size_t>(elements(graph.spec(input).dims)));
    for (double& value : inputs.back()) value = normal(random);
  }
  return inputs;
}

inline std::vector<std::vector<double>> values_of(const KernelGraph& graph,
                                                  const std::vector<std::vector<double>>& inputs) {
  std::vector<std::vector<double>> outputs;
  const Status status = evaluate(graph, inputs, &outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t at = 0; at < a.size(); ++at)
    ASSERT_NEAR(a[at], b[at], tolerance * std::max(1.0, std::abs(b[at]))) << "element " << at;
}

}  // namespace gqa

// program_test.cc: gqa.hpp's programs, on the host device: found, told about, run, wrong in every way.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "gqa.hpp"
#include "testing.h"

namespace {

using gqa::test::host;
using gqa::test::status_of;

// relu(x w), float32: x is 3 x 40, w 40 x 24.
struct Layer {
  Layer() : x(120), w(960), y(72, NAN) {
    const gqa::Value a = graph.input({3, 40}, gqa::float32), b = graph.input({40, 24}, gqa::float32);
    graph.output(relu(matmul(a, b)));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.125f * static_cast<float>(static_cast<int>(i % 7) - 3);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.25f * static_cast<float>(static_cast<int>(i % 5) - 2);
  }

  double expected(std::size_t row, std::size_t column) const {
    double sum = 0;
    for (std::size_t i = 0; i < 40; ++i) sum += double(x[row * 40 + i]) * w[i * 24 + column];
    return sum > 0 ? sum : 0;
  }
  gqa::Tensor x_tensor() { return {x.data(), {3, 40}, gqa::float32}; }
  gqa::Tensor w_tensor() { return {w.data(), {40, 24}, gqa::float32}; }
  gqa::Tensor y_tensor() { return {y.data(), {3, 24}, gqa::float32}; }

  gqa::Graph graph;
  std::vector<float> x, w, y;
};

TEST(CppProgram, IsFoundAndRight) {
  Layer layer;
  const gqa::Handle handle(host());
  std::vector<std::string> phases;
  gqa::SearchOptions options;
  options.progress = [&](const gqa_search_progress& at) { phases.emplace_back(at.phase); };
  const gqa::Program program = layer.graph.superoptimize(handle, options);
  EXPECT_FALSE(phases.empty());
  EXPECT_EQ(phases.front(), "search");
  EXPECT_FALSE(program.from_cache());
  EXPECT_TRUE(layer.graph.superoptimize(handle).from_cache());
  EXPECT_EQ(program.inputs(), 2);
  EXPECT_EQ(program.outputs(), 1);
  EXPECT_EQ(program.input(1).dims, (gqa::Dims{40, 24}));
  EXPECT_EQ(program.output(0).dims, (gqa::Dims{3, 24}));
  EXPECT_EQ(program.output(0).dtype.bits, 32);
  EXPECT_NE(program.explain().find("proved"), std::string::npos);
  EXPECT_EQ(program.dot().rfind("digraph", 0), 0u);
  EXPECT_EQ(gqa::Graph::parse(program.text()).text(), program.text());

  program.run({layer.x_tensor(), layer.w_tensor()}, {layer.y_tensor()});
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 24; ++column)
      EXPECT_NEAR(layer.y[row * 24 + column], layer.expected(row, column), 0.05);
  }
}

TEST(CppProgram, RefusesWhatDoesNotFit) {
  Layer layer;
  const gqa::Handle handle(host());
  const gqa::Program program = layer.graph.superoptimize(handle);
  const gqa::Tensor x = layer.x_tensor(), w = layer.w_tensor(), y = layer.y_tensor();
  const gqa::Tensor turned(layer.w.data(), {24, 40}, gqa::float32), half(layer.w.data(), {40, 24}, gqa::float16);
  const gqa::Tensor strided(layer.w.data(), {40, 24}, gqa::float32, {kDLCPU, 0}, {1, 40});
  const gqa::Tensor elsewhere(layer.w.data(), {40, 24}, gqa::float32, {kDLCUDA, 0});
  const gqa::Tensor askew(layer.w.data() + 1, {40, 24}, gqa::float32);
  const gqa::Tensor onto_x(layer.x.data(), {3, 24}, gqa::float32);
  EXPECT_EQ(status_of([&] { program.run({x}, {y}); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { program.run({x, w}, {y, y}); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { program.run({x, turned}, {y}); }), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { program.run({x, half}, {y}); }), GQA_ERROR_DTYPE);
  EXPECT_EQ(status_of([&] { program.run({x, strided}, {y}); }), GQA_ERROR_STRIDE);
  EXPECT_EQ(status_of([&] { program.run({x, elsewhere}, {y}); }), GQA_ERROR_DEVICE);
  EXPECT_EQ(status_of([&] { program.run({x, askew}, {y}); }), GQA_ERROR_ALIGNMENT);
  EXPECT_EQ(status_of([&] { program.run({x, w}, {onto_x}); }), GQA_ERROR_ALIAS);
  EXPECT_EQ(status_of([&] { program.run({x, static_cast<const DLTensor*>(nullptr)}, {y}); }), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(status_of([&] { (void)program.output(1); }), GQA_ERROR_OPTION);
  for (const float untouched : layer.y) EXPECT_TRUE(std::isnan(untouched));
}

TEST(CppProgram, RefusesWhatCannotBeSearched) {
  Layer layer;
  const gqa::Handle handle(host());
  gqa::SearchOptions unknown, hasty;
  unknown.config = "everything";
  hasty.budget = -1;
  EXPECT_EQ(status_of([&] { layer.graph.superoptimize(handle, unknown); }), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { layer.graph.superoptimize(handle, hasty); }), GQA_ERROR_OPTION);
  EXPECT_NE(status_of([&] { gqa::Graph().superoptimize(handle); }), GQA_OK);
}

TEST(CppProgram, AnExceptionOfTheCallbackArrives) {
  Layer layer;
  const gqa::Handle handle(host());
  gqa::SearchOptions options;
  int told = 0;
  options.progress = [&](const gqa_search_progress&) {
    ++told;
    throw std::length_error("enough");
  };
  EXPECT_THROW(layer.graph.superoptimize(handle, options), std::length_error);
  EXPECT_EQ(told, 1);
}

}  // namespace

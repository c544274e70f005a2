// example.cc: a graph of one's own from C++, start to end: RMSNorm and a gated MLP.
// Owns: the smallest complete program: the graph in the words of the formula, the search, one run, and a check of the
// answer against the same formula written out in double precision.
// Never: needs anything but gqa.hpp, gqa.h, gqa_graph.h, libgqa.so and the C++ library.
// Threads: one.
//
//   example [DEVICE]     DEVICE: host (default); tensors are in host memory.
#include <cmath>
#include <cstdio>
#include <vector>

#include "gqa.hpp"

namespace {

constexpr int kRows = 4, kWidth = 96, kHidden = 160;
constexpr double kEpsilon = 1e-5;

// float32 in, float32 out: the host's numbers as they are.
std::vector<float> numbers(int count, std::uint32_t seed) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& number : made) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return made;
}

// silu(n w1) * (n w3) of one row and column; n: the row, normalised.
double expected(const std::vector<float>& x, const std::vector<float>& w1, const std::vector<float>& w3, int row,
                int column) {
  double squares = 0, gate = 0, up = 0;
  for (int i = 0; i < kWidth; ++i) squares += std::pow(x[row * kWidth + i], 2);
  const double norm = 1 / std::sqrt(squares / kWidth + kEpsilon);
  for (int i = 0; i < kWidth; ++i) {
    gate += norm * x[row * kWidth + i] * w1[i * kHidden + column];
    up += norm * x[row * kWidth + i] * w3[i * kHidden + column];
  }
  return gate / (1 + std::exp(-gate)) * up;
}

int run(const char* device) {
  gqa::Graph graph;
  const gqa::Value x = graph.input({kRows, kWidth}, gqa::float32);
  const gqa::Value w1 = graph.input({kWidth, kHidden}, gqa::float32), w3 = graph.input({kWidth, kHidden}, gqa::float32);
  const gqa::Value n = rms_norm(x, kEpsilon);
  graph.output(silu(matmul(n, w1)) * matmul(n, w3));

  gqa_options options = {};
  options.device = device;
  options.cache_mode = GQA_CACHE_OFF;
  const gqa::Handle handle(options);
  gqa::SearchOptions search;
  search.budget = 1;
  const gqa::Program program = graph.superoptimize(handle, search);
  std::printf("%s\n", program.explain().c_str());

  std::vector<float> x_data = numbers(kRows * kWidth, 1), w1_data = numbers(kWidth * kHidden, 2);
  std::vector<float> w3_data = numbers(kWidth * kHidden, 3), y_data(kRows * kHidden);
  program.run({gqa::Tensor(x_data.data(), {kRows, kWidth}, gqa::float32),
               gqa::Tensor(w1_data.data(), {kWidth, kHidden}, gqa::float32),
               gqa::Tensor(w3_data.data(), {kWidth, kHidden}, gqa::float32)},
              {gqa::Tensor(y_data.data(), {kRows, kHidden}, gqa::float32)});

  double worst = 0;
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kHidden; ++column) {
      const double difference = expected(x_data, w1_data, w3_data, row, column) - y_data[row * kHidden + column];
      worst = std::max(worst, std::fabs(difference));
    }
  }
  std::printf("largest error %.7f against double precision\n", worst);
  return worst < 1e-2 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "host");
  } catch (const gqa::Error& error) {
    std::fprintf(stderr, "%s: %s\n", gqa_status_string(error.status()), error.what());
    return 1;
  }
}

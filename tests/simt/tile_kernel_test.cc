// Tile kernels run, on the emulator: block graphs with ragged tiles, plain operators and what the search makes of users'
// graphs give what evaluate() gives, read and write nothing else, and do not depend on the order of threads.
#include <gtest/gtest.h>

#include "tests/simt/tile_support.h"

namespace gqa::simt {
namespace {

#define REQUIRE_EMULATOR() \
  if (const char* why = unavailable()) GTEST_SKIP() << why

void expect_block(const std::string& text, const ThreadPlan& threads) {
  const KernelGraph graph = graph_of(text);
  expect_equals(graph, {kernel_of(graph, graph.nodes()[0], threads)}, graph);
}

TEST(TileKernel, RootMeanSquareAndProductInOneLoop) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kNormed, tile_threads(4, 3));
}

TEST(TileKernel, NormedRowsInPlace) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kNormedWhole, tile_threads(2, 1));
}

TEST(TileKernel, TwoProductsInOneAccumulator) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kLora, tile_threads(4, 2));
}

TEST(TileKernel, SingleProductsAndMaxima) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kSingle, tile_threads(1, 2));
}

TEST(TileKernel, RunningMaximumOverTransposedKeys) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kTransposed, tile_threads(4, 3));
}

TEST(TileKernel, StoresOfEachStep) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kEachStep, tile_threads(2, 3));
}

TEST(TileKernel, WholeRows) {
  REQUIRE_EMULATOR();
  expect_block(tiles::kRows, tile_threads(4, 1));
}

}  // namespace
}  // namespace gqa::simt

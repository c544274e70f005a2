// Streamed loops run, on the emulator: they give what evaluate() gives, however many warps and thread blocks share them
// and however many pieces are on their way.
#include <gtest/gtest.h>

#include "tests/search/graph/stream_graphs.h"
#include "tests/simt/kernels/tile_support.h"

namespace gqa::simt {
namespace {

class TileStream : public ::testing::TestWithParam<std::size_t> {};

void expect_streams(const std::string& text, const ThreadPlan& threads) {
  SCOPED_TRACE(to_text(threads));
  const KernelGraph graph = graph_of(text);
  expect_equals(graph, {kernel_of(graph, graph.nodes()[0], threads)}, graph);
}

TEST_P(TileStream, GivesWhatTheGraphSays) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  const std::string& text = *streams::kAll[GetParam()];
  for (const ThreadPlan& threads : {stream_threads(4, 1), stream_threads(2, 1, 2)}) expect_streams(text, threads);
}

INSTANTIATE_TEST_SUITE_P(Graphs, TileStream, ::testing::Range<std::size_t>(0, std::size(streams::kAll)));

TEST(TileStreamAhead, SeveralPiecesOnTheirWay) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const std::string* text : streams::kSlender) expect_streams(*text, stream_threads(2, 2));
  expect_streams(streams::kNarrow, stream_threads(1, 3));
}

// Three thread blocks have six pieces: some warps have one more than others, and none of a fourth round.
TEST(TileStreamSplits, SharesThatAreNotEqual) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  expect_streams(streams::kNormed, stream_threads(4, 1, 3));
  expect_streams(streams::kGated, stream_threads(2, 1, 5));
}

}  // namespace
}  // namespace gqa::simt

// Which loops can be streamed, how their accumulators are dealt out to warps, and how thread blocks share them.
#include "search/graph/tile/tile_stream.h"

#include <gtest/gtest.h>

#include "search/graph/enumerate/superoptimize.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/stream_graphs.h"
#include "tests/search/graph/tile/tile_graphs.h"

namespace gqa {
namespace {

TilePlan stream_plan_of(const std::string& text, const ThreadPlan& threads) {
  const KernelGraph graph = one_kernel(text, threads);
  TilePlan plan;
  const Status status = plan_tile(graph, graph.nodes()[0], &plan);
  EXPECT_TRUE(status.ok()) << status.message() << "\n" << text;
  return plan;
}

using Changes = std::vector<std::pair<std::string, std::string>>;

// What a plan of the graph is refused for, once each first is written as its second, wherever it stands.
std::string refused(std::string text, const Changes& changes) {
  for (const auto& [from, to] : changes) {
    EXPECT_NE(std::string::npos, text.find(from)) << from;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  const KernelGraph graph = one_kernel(text, stream_threads(4, 1));
  TilePlan plan;
  const Status status = plan_tile(graph, graph.nodes()[0], &plan);
  EXPECT_EQ(Code::kOption, status.code()) << text;
  return status.message();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TileStream, TheLoopHasNoBuffersAndNoBarriers) {
  for (const std::string* text : streams::kAll) {
    SCOPED_TRACE(*text);
    const TilePlan plan = stream_plan_of(*text, stream_threads(4, 1));
    EXPECT_TRUE(plan.ring.empty());
    EXPECT_EQ(0, plan.ahead());
    EXPECT_EQ(0, plan.partials());
    for (const TilePass& pass : plan.passes) {
      EXPECT_EQ(pass.phase == Phase::kLoop, pass.kind == TilePass::Kind::kStream);
    }
  }
}

TEST(TileStream, WideAccumulatorsHaveWarpsOfTheirOwn) {
  EXPECT_EQ(1U, stream_plan_of(streams::kNormed, stream_threads(4, 1)).stream.groups.size());
  EXPECT_EQ(1U, stream_plan_of(streams::kLora, stream_threads(4, 1)).stream.groups.size());
  EXPECT_EQ(2U, stream_plan_of(streams::kGated, stream_threads(4, 1)).stream.groups.size());
  const TilePlan wide = stream_plan_of(streams::kWide, stream_threads(4, 1));
  ASSERT_EQ(2U, wide.stream.groups.size());
  EXPECT_EQ(0, wide.stream.groups[0][0].column);
  EXPECT_EQ(64, wide.stream.groups[1][0].column);
  EXPECT_EQ(wide.stream.groups[0][0].accumulator, wide.stream.groups[1][0].accumulator);
  EXPECT_EQ(2, wide.copies());
}

TEST(TileStream, ThreadBlocksHandOverWhole16Bytes) {
  const TilePlan plan = stream_plan_of(streams::kNormed, stream_threads(4, 1, 2));
  EXPECT_EQ(5 * 64 + 8, plan.partials());  // five sums of rows, to eight
  EXPECT_EQ(2, plan.blocks());
}

TEST(TileStream, WhatCannotBeStreamedIsRefusedWithTheReason) {
  EXPECT_TRUE(has(refused(streams::kNarrow, {{"/32", "/16"}, {"steps=4", "steps=8"}}), "do not lie in pieces"));
  EXPECT_TRUE(has(refused(streams::kNarrow, {{"input f16", "input f32"}, {"o f16", "o f32"}}), "16 bits wide"));
  EXPECT_TRUE(has(refused(streams::kNarrow, {{"[128,24]", "[128,24] strides=[1,128]"}}), "right operand"));
  EXPECT_TRUE(has(refused(streams::kNarrow, {{"x = input f16", "x = input bf16"}}), "operands of two types"));
  EXPECT_TRUE(has(refused(streams::kGated, {{"[16,", "[64,"}}), "registers a thread"));
  EXPECT_TRUE(
      has(refused(streams::kParts, {{"w = input bf16[256,32]", "w = input bf16[32,256]"},
                                    {"load(3) grid=[1/16,0/128] loop=0/32", "load(3) grid=[0/16,1/128] loop=1/32"},
                                    {"matmul(zt, wt)", "matmul(zt, wt) tb=1"}}),
          "lie both ways"));
  EXPECT_TRUE(has(refused(tiles::kTransposed, {}), "more than sums"));
  EXPECT_TRUE(has(refused(tiles::kEachStep, {}), "results of each step"));
}

TEST(TileStream, SplitsFillTheDevice) {
  TilePlan plan;
  plan.block.steps = 128;
  plan.warps = 8;
  plan.stream.groups.resize(4);
  plan.block.grid = {86};
  EXPECT_EQ(3, stream_splits(plan, 132, 2)[0]);  // 258 of 264 places
  plan.block.grid = {264};
  EXPECT_EQ(1, stream_splits(plan, 132, 2)[0]);
  plan.block.steps = 2;
  plan.block.grid = {1};
  EXPECT_EQ(1U, stream_splits(plan, 132, 2).size()) << "each warp has some pieces";
}

TEST(TileStream, BalanceIsThatOfTheLastRound) {
  EXPECT_DOUBLE_EQ(1, stream_balance(264, 132, 2));
  EXPECT_DOUBLE_EQ(265.0 / 528, stream_balance(265, 132, 2));
}

// The search finds it best for a decoder's linear layers, and its first plan streams.
TEST(TileStream, LinearsOfFewRowsAreStreamed) {
  const KernelGraph graph = graph_of(
      "graph 1\nx = input bf16[4,4096]\nu = input bf16[4096,11008]\nw = input bf16[4096,11008]\n"
      "a = matmul(x, u)\ns = silu(a)\nb = matmul(x, w)\ny = mul(s, b)\n");
  const SearchResult found = search(graph, "", 4);
  ASSERT_FALSE(found.programs.empty());
  const KernelGraph& best = found.programs[0].program.graph;
  ASSERT_EQ(1U, best.nodes().size());
  const std::vector<ThreadPlan> plans = tile_plans(best, best.nodes()[0], hopper());
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ("tile warps=8 stream=1 splits=3", to_text(plans[0]));
}

}  // namespace
}  // namespace gqa

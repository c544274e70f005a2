// Plans of tile kernels: what lives at the same time does not overlap, what threads hand to each other is fenced, all
// fits the device, and what the kernels stand on holds: sums in registers, loads under way, few barriers.
#include "search/graph/tile/tile_plan.h"

#include <gtest/gtest.h>

#include "tests/search/graph/tile/tile_graphs.h"

namespace gqa {
namespace {

TilePlan tile_plan_of(const KernelGraph& kernel) {
  TilePlan plan;
  const Status status = plan_tile(kernel, kernel.nodes()[0], &plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

const TileBuffer& buffer(const TilePlan& plan, int at) { return plan.buffers[static_cast<std::size_t>(at)]; }

int named(const TilePlan& plan, std::string_view name) {
  for (std::size_t at = 0; at < plan.block.nodes.size(); ++at) {
    if (plan.block.nodes[at].name == name) return static_cast<int>(at);
  }
  ADD_FAILURE() << "no node " << name;
  return 0;
}

const TileValue& value(const TilePlan& plan, std::string_view name) {
  return plan.values[static_cast<std::size_t>(named(plan, name))];
}

std::int64_t barriers(const TilePlan& plan, Phase phase) {
  return std::count_if(plan.passes.begin(), plan.passes.end(),
                       [&](const TilePass& pass) { return pass.phase == phase && pass.barrier; });
}

// No two buffers that hold a value at the same time share a byte.
void expect_apart(const TilePlan& plan) {
  for (std::size_t a = 0; a < plan.buffers.size(); ++a) {
    for (std::size_t b = a + 1; b < plan.buffers.size(); ++b) {
      const TileBuffer &one = plan.buffers[a], &other = plan.buffers[b];
      if (one.last < other.first || other.last < one.first) continue;
      EXPECT_FALSE(one.overlaps(other)) << one.name << " and " << other.name;
    }
    EXPECT_LE(plan.buffers[a].offset + plan.buffers[a].bytes(), plan.shared_memory);
    EXPECT_EQ(0, plan.buffers[a].offset % 128);
  }
}

// Between a write and whatever meets its bytes after it, in another pass, stands a barrier.
void expect_fenced(const TilePlan& plan) {
  const auto meet = [&](const std::vector<int>& a, const std::vector<int>& b) {
    for (const int one : a) {
      for (const int other : b) {
        if (buffer(plan, one).overlaps(buffer(plan, other))) return true;
      }
    }
    return false;
  };
  for (std::size_t from = 0; from < plan.passes.size(); ++from) {
    for (std::size_t to = from + 1; to < plan.passes.size(); ++to) {
      const TilePass &first = plan.passes[from], &second = plan.passes[to];
      // A step begins with a barrier.
      if (second.barrier || (first.phase == Phase::kBefore && second.phase != Phase::kBefore && plan.loops)) break;
      EXPECT_FALSE(meet(first.writes, second.reads) || meet(first.writes, second.writes) ||
                   meet(first.reads, second.writes))
          << "passes " << from << " and " << to;
    }
  }
}

TEST(TilePlan, RowsThatAreReadWholeBeforeTheLoopAreKeptNowhere) {
  const TilePlan plan = tile_plan_of(one_kernel(tiles::kNormedFirst, tile_threads(4, 3)));
  EXPECT_EQ(TilePlace::kGlobal, value(plan, "xw").place);
  EXPECT_EQ(TilePlace::kInline, value(plan, "sq").place);
  EXPECT_EQ(TilePlace::kShared, value(plan, "r").place);
  EXPECT_TRUE(plan.early.empty());
  EXPECT_EQ(3U, plan.ring.size());
}

TEST(TilePlan, BuffersAreApartAndPassesFenced) {
  for (const std::string* text : tiles::kAll) {
    for (const int warps : {1, 2, 4, 8}) {
      for (const int stages : {2, 3, 5}) {
        SCOPED_TRACE(*text + std::to_string(warps) + " warps, " + std::to_string(stages) + " stages");
        const TilePlan plan = tile_plan_of(one_kernel(*text, tile_threads(warps, stages)));
        expect_apart(plan);
        expect_fenced(plan);
      }
    }
  }
}

TEST(TilePlan, ProgramsOfTheSearchFitTheDevice) {
  const DeviceSpec device = hopper();
  for (const std::string& text : tiles::kUsers) {
    for (const RankedProgram& ranked : search(graph_of(text), "", 6).programs) {
      for (const KernelNode& node : ranked.program.graph.nodes()) {
        const std::vector<ThreadPlan> plans = tile_plans(ranked.program.graph, node, device);
        EXPECT_FALSE(plans.empty()) << to_text(ranked.program.graph);
        for (const ThreadPlan& threads : plans) {
          if (!node.block) continue;
          const TilePlan plan = tile_plan_of(kernel_of(ranked.program.graph, node, threads).graph);
          EXPECT_LE(plan.shared_memory, device.smem_per_block);
          expect_apart(plan);
          expect_fenced(plan);
        }
      }
    }
  }
}

TEST(TilePlan, SumsOfProductsStayInRegistersAndAStepHasOneBarrier) {
  const TilePlan plan = tile_plan_of(one_kernel(tiles::kGated, tile_threads(8, 4)));
  EXPECT_EQ(TilePlace::kFragments, value(plan, "ps").place);
  EXPECT_EQ(TilePlace::kFragments, value(plan, "qs").place);
  EXPECT_EQ(0, barriers(plan, Phase::kLoop));  // but the one that a step begins with
  EXPECT_EQ(3U, plan.ring.size());
  EXPECT_EQ(3, plan.ahead());
  for (const int load : plan.ring)
    EXPECT_EQ(4, buffer(plan, plan.values[static_cast<std::size_t>(load)].buffer).copies);
}

TEST(TilePlan, BothProductsOfALoraAddIntoOneAccumulator) {
  const TilePlan plan = tile_plan_of(one_kernel(tiles::kLora, tile_threads(4, 3)));
  EXPECT_EQ(TilePlace::kAbsorbed, value(plan, "p").place);
  EXPECT_EQ(TilePlace::kAbsorbed, value(plan, "r").place);
  EXPECT_EQ(TilePlace::kAbsorbed, value(plan, "s").place);
  EXPECT_EQ(2U, value(plan, "y").terms.size());
  EXPECT_EQ(ElementType::kBF16, buffer(plan, value(plan, "q").buffer).type);
}

TEST(TilePlan, ASumOfSquaresIsGatheredByLanesOverTheLoop) {
  const TilePlan plan = tile_plan_of(one_kernel(tiles::kNormed, tile_threads(4, 3)));
  EXPECT_EQ(TilePlace::kInline, value(plan, "sq").place);
  EXPECT_EQ(TilePlace::kAbsorbed, value(plan, "ss").place);
  EXPECT_EQ(TilePlace::kLanes, value(plan, "total").place);
  EXPECT_GT(value(plan, "total").width, 1);
}

TEST(TilePlan, NormedRowsTakeTheRowsPlace) {
  const TilePlan plan = tile_plan_of(one_kernel(tiles::kNormedWhole, tile_threads(4, 1)));
  EXPECT_EQ(value(plan, "xt").buffer, plan.values[static_cast<std::size_t>(named(plan, "y")) - 2].buffer);
}

TEST(TilePlan, WarpsShareTheInnerDimensionWhereTheResultIsSmall) {
  const TilePlan small = tile_plan_of(one_kernel(tiles::kGated, tile_threads(8, 3)));
  EXPECT_GT(value(small, "ps").product.warps_inner, 1);
  EXPECT_EQ(value(small, "ps").product.warps_inner, buffer(small, value(small, "ps").parts).copies);
  const KernelGraph plain = graph_of("graph 1\na = input f16[256,512]\nb = input f16[512,256]\ny = matmul(a, b)\n");
  KernelGraph tiled;
  ASSERT_TRUE(tile_product(plain, plain.nodes()[0], &tiled).ok());
  const TilePlan large = tile_plan_of(tiled);
  EXPECT_EQ(1, value(large, "sum").product.warps_inner);
  EXPECT_EQ(-1, value(large, "sum").parts);
}

TEST(TilePlan, DecodeKeepsThirtyTwoKilobytesOnTheirWayToAProcessor) {
  const DeviceSpec device = hopper();
  const KernelGraph graph = graph_of(tiles::kGated);
  const std::vector<ThreadPlan> plans = tile_plans(graph, graph.nodes()[0], device);
  ASSERT_FALSE(plans.empty());
  const TilePlan plan = tile_plan_of(kernel_of(graph, graph.nodes()[0], plans[0]).graph);
  std::int64_t bytes = 0;
  for (const int load : plan.ring)
    bytes += buffer(plan, plan.values[static_cast<std::size_t>(load)].buffer).copy_bytes();
  EXPECT_GE(bytes * plan.ahead(), 32768);  // one block an SM here
}

TEST(TilePlan, WhatDoesNotFitSaysWhy) {
  TilePlan plan;
  const KernelGraph graph = one_kernel(tiles::kGated, tile_threads(3, 3));
  const Status status = plan_tile(graph, graph.nodes()[0], &plan);
  EXPECT_EQ(Code::kOption, status.code());
  EXPECT_NE(std::string::npos, status.message().find("warps=3")) << status.message();
  const KernelGraph plain = graph_of("graph 1\nx = input f16[4,4]\ny = exp(x)\n");
  EXPECT_NE(std::string::npos, plan_tile(plain, plain.nodes()[0], &plan).message().find("a plain exp"));
}

}  // namespace
}  // namespace gqa

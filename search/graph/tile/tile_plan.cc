// tile_plan.cc: see tile_plan.h: what a plan's parameters and a block's sizes allow; tile_values.cc decides where each
// value lives, tile_passes.cc orders the work.
#include "search/graph/tile/tile_plan.h"

#include <algorithm>
#include <limits>

#include "search/graph/tile/tile_open.h"
#include "search/graph/tile/tile_passes.h"
#include "search/graph/tile/tile_stream.h"
#include "search/graph/tile/tile_values.h"
#include "search/rounding.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostThreadRegisters = 255, kRegisterFile = 65536, kOtherRegisters = 56;
constexpr std::int64_t kMostTileSplits = 16;
constexpr std::int64_t kMostTileBlocks = std::numeric_limits<std::int32_t>::max();

bool has_loop(const BlockGraph& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(),
                     [](const BlockNode& node) { return node.phase == Phase::kLoop; }) ||
         std::any_of(block.stores.begin(), block.stores.end(),
                     [](const BlockStore& store) { return store.map.loop.dim >= 0; });
}

std::int64_t accumulator_registers(const TilePlan& plan) {
  std::int64_t kept = 0, largest = 0;
  for (std::size_t at = 0; at < plan.values.size(); ++at) {
    const TileValue& value = plan.values[at];
    if (value.place == TilePlace::kFragments) kept += value.product.registers();
    if (value.place == TilePlace::kLanes)
      kept += ceil_div(tile_elements(plan.block.nodes[at]) * value.width, plan.threads());
    if (value.place == TilePlace::kShared) largest = std::max(largest, value.product.registers());
  }
  return kept + largest;
}

Status no_tile_kernel(const std::string& what) { return Status(Code::kOption, "a tile kernel of " + what); }

Status check_sizes(const KernelGraph& graph, const KernelNode& node) {
  for (const std::vector<int>* tensors : {&node.inputs, &node.outputs}) {
    for (const int tensor : *tensors) {
      for (const std::int64_t size : graph.spec(tensor).dims) {
        if (size >= kMostTileBlocks)
          return no_tile_kernel("a dimension of " + std::to_string(size) + ": expected below 2^31");
      }
    }
  }
  if (blocks(*node.block) > kMostTileBlocks || node.block->steps > kMostTileBlocks)
    return no_tile_kernel(std::to_string(blocks(*node.block)) + " blocks of " + std::to_string(node.block->steps) +
                          " steps: expected below 2^31");
  return {};
}

}  // namespace

std::int64_t tile_elements(const BlockNode& node) { return elements(tile_dims(node.axes)); }
std::int64_t tile_columns(const BlockNode& node) { return node.axes.empty() ? 1 : node.axes.back().tile; }

bool may_be_short(const BlockGraph& block, const Axis& axis) {
  const std::int64_t along = axis.grid < 0 ? 1 : block.grid[static_cast<std::size_t>(axis.grid)];
  if (along * axis.share != axis.full) return true;
  return axis.loop && block.steps * axis.tile != axis.share;
}

std::int64_t partial_floats(const BlockNode& accumulator) { return ceil_div(tile_elements(accumulator), 4) * 4; }

std::int64_t TilePlan::partials() const {
  std::int64_t floats = 0;
  for (const BlockNode& node : block.nodes) {
    if (stream.splits > 1 && info(node.op).kind == OpClass::kAccumulator) floats += partial_floats(node);
  }
  return floats;
}

std::int64_t TileProduct::registers() const {
  return ceil_div(row_tiles(), warps_rows) * ceil_div(column_pairs(), warps_columns) * 8;
}

std::int64_t TileBuffer::pitch() const {
  if (type == ElementType::kF32) return ceil_div(columns, 4) * 16 + (padded ? 16 : 0);
  const std::int64_t pieces = ceil_div(columns, 8);
  const bool swizzled = pieces % 8 == 0 || pieces == 1 || pieces == 2 || pieces == 4;
  return 16 * (swizzled || pieces % 2 == 1 ? pieces : pieces + 1);
}

Status check_threads(const ThreadPlan& threads) {
  const std::int64_t warps = threads.get("warps", 4), stages = threads.get("stages", 3);
  if (warps < 1 || warps > 32 || (warps & (warps - 1)) != 0 || stages < 1 || stages > 16)
    return no_tile_kernel("warps=" + std::to_string(warps) + " stages=" + std::to_string(stages) +
                          ": expected 1, 2, 4, 8, 16 or 32 warps and 1 to 16 stages");
  const std::int64_t ahead = threads.get("stream", 0), splits = threads.get("splits", 1);
  if (ahead < 0 || ahead > 8 || splits < 1 || splits > kMostTileSplits || (ahead == 0 && splits > 1))
    return no_tile_kernel("stream=" + std::to_string(ahead) + " splits=" + std::to_string(splits) +
                          ": expected 0 to 8 pieces ahead, and 1 to " + std::to_string(kMostTileSplits) +
                          " splits of a loop that is streamed");
  return {};
}

Status plan_tile(const KernelGraph& graph, const KernelNode& node, TilePlan* plan) {
  if (!node.block) return no_tile_kernel("a plain " + std::string(name(node.op)) + ": expected a custom operator");
  if (Status status = check_sizes(graph, node); !status.ok()) return status;
  const ThreadPlan& threads = node.block->threads;
  if (Status status = check_threads(threads); !status.ok()) return status;
  TilePlan made;
  made.block = open_rows(*node.block);
  made.warps = static_cast<int>(threads.get("warps", 4));
  made.loops = has_loop(made.block);
  made.stages = made.block.steps == 1 ? 1 : static_cast<int>(std::max<std::int64_t>(2, threads.get("stages", 3)));
  made.stream.ahead = static_cast<int>(threads.get("stream", 0));
  made.stream.splits = static_cast<int>(threads.get("splits", 1));
  if (made.stream.on()) {
    if (Status status = plan_stream(graph, node, made.block, made.warps, &made.stream); !status.ok()) return status;
  }
  place_values(graph, node, &made);
  const std::int64_t registers = accumulator_registers(made);
  if (registers > std::min(kMostThreadRegisters, kRegisterFile / made.threads()) - kOtherRegisters)
    return no_tile_kernel(std::to_string(made.threads()) + " threads would keep " + std::to_string(registers) +
                          " results each: expected smaller tiles or more warps");
  add_passes(&made);
  *plan = std::move(made);
  return {};
}

}  // namespace gqa

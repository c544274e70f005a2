// tile_plan.cc: see tile_plan.h: what a plan's parameters and a block's sizes allow; tile_values.cc decides where each
// value lives, tile_passes.cc orders the work.
#include "search/graph/tile_plan.h"

#include <algorithm>
#include <limits>

#include "search/graph/tile_open.h"
#include "search/graph/tile_passes.h"
#include "search/graph/tile_values.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostRegisters = 255, kRegisterFile = 65536, kOtherRegisters = 56;
constexpr std::int64_t kMostBlocks = std::numeric_limits<std::int32_t>::max();

std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

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

Status misfit(const std::string& what) { return Status(Code::kOption, "a tile kernel of " + what); }

Status check_sizes(const KernelGraph& graph, const KernelNode& node) {
  for (const std::vector<int>* tensors : {&node.inputs, &node.outputs}) {
    for (const int tensor : *tensors) {
      for (const std::int64_t size : graph.spec(tensor).dims) {
        if (size >= kMostBlocks) return misfit("a dimension of " + std::to_string(size) + ": expected below 2^31");
      }
    }
  }
  if (blocks(*node.block) > kMostBlocks || node.block->steps > kMostBlocks)
    return misfit(std::to_string(blocks(*node.block)) + " blocks of " + std::to_string(node.block->steps) +
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

std::int64_t TileProduct::registers() const {
  return ceil_div(row_tiles(), warps_rows) * ceil_div(column_pairs(), warps_columns) * 8;
}

std::int64_t TileBuffer::pitch() const {
  if (type == ElementType::kF32) return columns * 4 + (columns % 4 == 0 ? 0 : 16 - columns * 4 % 16);
  const std::int64_t pieces = ceil_div(columns, 8);
  const bool swizzled = pieces % 8 == 0 || pieces == 1 || pieces == 2 || pieces == 4;
  return 16 * (swizzled || pieces % 2 == 1 ? pieces : pieces + 1);
}

Status plan_tile(const KernelGraph& graph, const KernelNode& node, TilePlan* plan) {
  if (!node.block) return misfit("a plain " + std::string(name(node.op)) + ": expected a custom operator");
  if (Status status = check_sizes(graph, node); !status.ok()) return status;
  const std::int64_t warps = node.block->threads.get("warps", 4), stages = node.block->threads.get("stages", 3);
  if (warps < 1 || warps > 32 || (warps & (warps - 1)) != 0 || stages < 1 || stages > 16)
    return misfit("warps=" + std::to_string(warps) + " stages=" + std::to_string(stages) +
                  ": expected 1, 2, 4, 8, 16 or 32 warps and 1 to 16 stages");
  TilePlan made;
  made.block = open_rows(*node.block);
  made.warps = static_cast<int>(warps);
  made.loops = has_loop(made.block);
  made.stages = made.block.steps == 1 ? 1 : static_cast<int>(std::max<std::int64_t>(2, stages));
  place_values(graph, node, &made);
  const std::int64_t registers = accumulator_registers(made);
  if (registers > std::min(kMostRegisters, kRegisterFile / made.threads()) - kOtherRegisters)
    return misfit(std::to_string(made.threads()) + " threads would keep " + std::to_string(registers) +
                  " results each: expected smaller tiles or more warps");
  add_passes(&made);
  *plan = std::move(made);
  return {};
}

}  // namespace gqa

// block_graph.cc: see block_graph.h.
#include "search/graph/ir/block_graph.h"

#include <set>

#include "search/graph/ir/shape.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 40;
constexpr std::size_t kMostNodes = 1 << 14;

bool is_accumulator(const BlockNode& node) { return info(node.op).kind == OpClass::kAccumulator; }

Status in_node(const BlockNode& node, const Status& status) {
  if (status.ok()) return {};
  return Status(status.code(), "block node " + quote(node.name) + ": " + status.message());
}

Status node_error(const BlockNode& node, const std::string& what) { return in_node(node, Status(Code::kOption, what)); }

// Whether a node of `phase` may read `input`.
bool visible(const BlockNode& input, Phase phase) {
  if (input.phase == Phase::kBefore) return true;
  if (phase == Phase::kLoop)
    return input.phase == Phase::kLoop && (!is_accumulator(input) || input.op == Op::kRunningMax);
  if (phase == Phase::kAfter) return input.phase == Phase::kAfter || is_accumulator(input);
  return false;
}

Status check_load(const std::vector<TensorSpec>& operands, const BlockGraph& block, BlockNode* node) {
  if (node->operand < 0 || node->operand >= static_cast<int>(operands.size()) || !node->inputs.empty()) {
    return Status(Code::kOption, "a load of operand " + std::to_string(node->operand) + ": expected 0 to " +
                                     std::to_string(static_cast<int>(operands.size()) - 1));
  }
  if (node->map.loop.dim >= 0 && node->phase != Phase::kLoop)
    return Status(Code::kOption,
                  "a load that the loop cuts stands " + std::string(name(node->phase)) + " it: expected in it");
  return cut_axes(operands[static_cast<std::size_t>(node->operand)].dims, node->map, block.grid.size(), &node->axes);
}

Status check_operation(const BlockGraph& block, std::size_t at, BlockNode* node) {
  std::vector<Axes> shapes;
  for (const int input : node->inputs) {
    if (input < 0 || input >= static_cast<int>(at))
      return Status(Code::kOption, "input " + std::to_string(input) + ": expected a node before it");
    const BlockNode& from = block.nodes[static_cast<std::size_t>(input)];
    if (!visible(from, node->phase)) {
      return Status(Code::kOption, "reads " + quote(from.name) + " (" + std::string(name(from.phase)) + ", " +
                                       std::string(name(from.op)) + "), which is not there " +
                                       (node->phase == Phase::kLoop ? "in" : std::string(name(node->phase))) +
                                       " the loop: expected a value of before, of the loop through an accumulator");
    }
    shapes.push_back(from.axes);
  }
  if (is_accumulator(*node) && node->phase != Phase::kLoop)
    return Status(Code::kOption, "an accumulator outside the loop: expected it in the loop");
  if (node->op == Op::kAccumulateRescaled && node->inputs.size() == 2 &&
      block.nodes[static_cast<std::size_t>(node->inputs[1])].op != Op::kRunningMax)
    return Status(Code::kOption, "rescales by another than a running_max: expected one as second input");
  return infer_shape(node->op, shapes, &node->attributes, &node->axes);
}

Status check_node(const std::vector<TensorSpec>& operands, BlockGraph* block, std::size_t at) {
  BlockNode& node = block->nodes[at];
  if (info(node.op).level == Level::kKernel) {
    return node_error(node, std::string(name(node.op)) + " is not for tiles: expected " + op_names(Level::kBlock));
  }
  if (at > 0 && node.phase < block->nodes[at - 1].phase)
    return node_error(node, "stands after a later phase: expected before, loop, after in this order");
  if (node.op != Op::kLoad && (node.operand != -1 || node.map != TileMap{}))
    return node_error(node, "has a map: expected one on loads only");
  return in_node(node, node.op == Op::kLoad ? check_load(operands, *block, &node) : check_operation(*block, at, &node));
}

// One dimension of a store: what the blocks and steps write lies side by side and fills it.
bool fills(const BlockGraph& block, const Axis& value, const Axis& target) {
  const std::int64_t along = target.grid < 0 ? 1 : block.grid[static_cast<std::size_t>(target.grid)];
  const std::int64_t steps = target.loop ? block.steps : 1;
  if (value.tile != target.tile) return false;
  if (value.whole()) return steps * target.tile == target.share && along * target.share == target.full;
  return value == target && steps * target.tile >= target.share && along * target.share >= target.full;
}

Status check_written_once(const BlockGraph& block, const Axes& target, const BlockStore& store) {
  for (std::size_t at = 0; at < block.grid.size(); ++at) {
    if (block.grid[at] == 1) continue;
    bool cuts = false;
    for (const Axis& axis : target) cuts = cuts || axis.grid == static_cast<int>(at);
    if (!cuts) {
      return Status(Code::kShape, "store " + quote(store.name) + ": blocks along grid dimension " + std::to_string(at) +
                                      " write the same elements: expected its map to cut a " + "dimension of " +
                                      to_text(store.result.dims));
    }
  }
  return {};
}

Status check_store(const BlockGraph& block, BlockStore* store) {
  if (store->value < 0 || store->value >= static_cast<int>(block.nodes.size()))
    return Status(Code::kOption, "a store of node " + std::to_string(store->value) + ", which is not there");
  if (Status status = check(&store->result); !status.ok()) return status;
  const BlockNode& value = block.nodes[static_cast<std::size_t>(store->value)];
  const bool each_step = store->map.loop.dim >= 0;
  if (!visible(value, each_step ? Phase::kLoop : Phase::kAfter)) {
    return Status(Code::kOption, "store of " + quote(value.name) +
                                     ", a value of the loop: expected it accumulated, or " +
                                     "a map that the loop cuts");
  }
  Axes target;
  Status status = cut_axes(store->result.dims, store->map, block.grid.size(), &target);
  if (!status.ok()) return status;
  bool fits = target.size() == value.axes.size();
  for (std::size_t at = 0; fits && at < target.size(); ++at) fits = fills(block, value.axes[at], target[at]);
  if (!fits) {
    return Status(Code::kShape, "store of " + quote(value.name) + " " + to_text(tile_dims(value.axes)) + " into " +
                                    to_text(store->result.dims) +
                                    ": expected tiles that fill it, cut as the value is cut");
  }
  return check_written_once(block, target, *store);
}

Status check_grid(const BlockGraph& block) {
  std::int64_t product = 1;
  for (const std::int64_t extent : block.grid) {
    if (extent < 1 || extent > kMostBlocks / product)
      return Status(Code::kSize, "grid " + to_text(block.grid) + ": expected positive extents, in all at most " +
                                     grouped(kMostBlocks) + " blocks");
    product *= extent;
  }
  if (block.steps < 1 || block.steps > kMostBlocks)
    return Status(Code::kSize, "a loop of " + std::to_string(block.steps) + " steps: expected 1 or more");
  if (block.nodes.size() > kMostNodes || block.stores.empty())
    return Status(Code::kSize, "a block graph of " + std::to_string(block.nodes.size()) + " nodes and " +
                                   std::to_string(block.stores.size()) + " stores: expected at most " +
                                   std::to_string(kMostNodes) + " and at least one");
  return {};
}

}  // namespace

std::string_view name(Phase phase) {
  constexpr std::string_view kNames[] = {"before", "loop", "after"};
  return kNames[static_cast<int>(phase)];
}

Status cut_axes(const Dims& dims, const TileMap& map, std::size_t grid_rank, Axes* axes) {
  if (map.grid.size() != grid_rank) {
    return Status(Code::kShape, "a map of " + std::to_string(map.grid.size()) + " grid dimensions: expected " +
                                    std::to_string(grid_rank) + ", as the grid has");
  }
  *axes = whole_axes(dims);
  for (std::size_t at = 0; at <= grid_rank; ++at) {
    const bool is_loop = at == grid_rank;
    const Slice& slice = is_loop ? map.loop : map.grid[at];
    if (slice.dim < 0) continue;
    if (slice.dim >= static_cast<std::int64_t>(dims.size()))
      return Status(Code::kRank, "a map to dimension " + std::to_string(slice.dim) + " of " + to_text(dims));
    Axis& axis = (*axes)[static_cast<std::size_t>(slice.dim)];
    if (slice.tile < 1 || slice.tile > axis.share || (!is_loop && axis.grid >= 0)) {
      return Status(Code::kShape, "tiles of " + std::to_string(slice.tile) + " of dimension " +
                                      std::to_string(slice.dim) + " of " + to_text(dims) + ": expected 1 to " +
                                      std::to_string(axis.share) + ", cut by one grid dimension at most");
    }
    if (axis.full == 1) continue;
    axis.tile = slice.tile;
    axis.loop = is_loop;
    if (is_loop) continue;
    axis.share = slice.tile;
    axis.grid = static_cast<int>(at);
  }
  return {};
}

std::int64_t blocks(const BlockGraph& block) { return elements(block.grid); }

Status check(const std::vector<TensorSpec>& operands, BlockGraph* block) {
  if (Status status = check_grid(*block); !status.ok()) return status;
  std::set<std::string_view> names;
  for (std::size_t at = 0; at < block->nodes.size(); ++at) {
    if (Status status = check_node(operands, block, at); !status.ok()) return status;
    if (!names.insert(block->nodes[at].name).second)
      return node_error(block->nodes[at], "the name is taken: expected each once");
  }
  for (BlockStore& store : block->stores) {
    if (Status status = check_store(*block, &store); !status.ok()) return status;
  }
  return {};
}

BlockBuilder::BlockBuilder(std::vector<TensorSpec> operands, std::vector<std::int64_t> grid, std::int64_t steps)
    : operands_(std::move(operands)) {
  block_.grid = std::move(grid);
  block_.steps = steps;
}

int BlockBuilder::push(BlockNode node) {
  const std::size_t at = block_.nodes.size();
  if (node.name.empty()) node.name = "b" + std::to_string(at);
  node.phase = phase_;
  block_.nodes.push_back(std::move(node));
  if (status_.ok()) status_ = check_node(operands_, &block_, at);
  return static_cast<int>(at);
}

int BlockBuilder::load(int operand, TileMap map, std::string name) {
  BlockNode node;
  node.name = std::move(name);
  node.operand = operand;
  node.map = std::move(map);
  node.map.grid.resize(std::max(node.map.grid.size(), block_.grid.size()));
  return push(std::move(node));
}

int BlockBuilder::add(Op op, std::vector<int> inputs, Attributes attributes, std::string name) {
  BlockNode node;
  node.name = std::move(name);
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  return push(std::move(node));
}

void BlockBuilder::store(int value, TileMap map, TensorSpec result, std::string name) {
  map.grid.resize(std::max(map.grid.size(), block_.grid.size()));
  block_.stores.push_back({std::move(name), value, std::move(map), std::move(result)});
}

Status BlockBuilder::finish(BlockGraph* block) {
  if (status_.ok()) status_ = check(operands_, &block_);
  if (status_.ok()) *block = block_;
  return status_;
}

}  // namespace gqa

// tile_open.cc: see tile_open.h, and tile_product() of tile_plan.h.
#include "search/graph/tile/tile_open.h"

#include <algorithm>

#include "search/graph/ir/shape.h"
#include "search/graph/tile/tile_plan.h"
#include "search/rounding.h"

namespace gqa {
namespace {

// Copies nodes one by one; names need not stay unique, since code numbers them.
class Opener {
 public:
  explicit Opener(const BlockGraph& block) : from_(block), to_(block) { to_.nodes.clear(); }

  BlockGraph run() {
    const std::vector<bool> read = read_by_stores();
    for (std::size_t at = 0; at < from_.nodes.size(); ++at) made_.push_back(read[at] ? open(from_.nodes[at]) : -1);
    for (BlockStore& store : to_.stores) store.value = made_[static_cast<std::size_t>(store.value)];
    return std::move(to_);
  }

 private:
  std::vector<bool> read_by_stores() const {
    std::vector<bool> read(from_.nodes.size(), false);
    for (const BlockStore& store : from_.stores) read[static_cast<std::size_t>(store.value)] = true;
    for (std::size_t at = from_.nodes.size(); at-- > 0;) {
      if (!read[at]) continue;
      for (const int input : from_.nodes[at].inputs) read[static_cast<std::size_t>(input)] = true;
    }
    return read;
  }

  int add(const BlockNode& like, Op op, std::vector<int> inputs, Attributes attributes = {}) {
    BlockNode node;
    node.name = like.name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.phase = like.phase;
    std::vector<Axes> shapes;
    for (const int input : node.inputs) shapes.push_back(to_.nodes[static_cast<std::size_t>(input)].axes);
    Status status = infer_shape(op, shapes, &node.attributes, &node.axes);
    (void)status;  // the operator that is opened has been checked, and its parts ask no more
    to_.nodes.push_back(std::move(node));
    return static_cast<int>(to_.nodes.size()) - 1;
  }

  int sum(const BlockNode& node, Op op, int x, std::int64_t dim) {
    Attributes along;
    along.dim = dim;
    return add(node, op, {x}, along);
  }

  int mean(const BlockNode& node, int x, std::int64_t dim) {
    Attributes by;
    by.count = to_.nodes[static_cast<std::size_t>(x)].axes[static_cast<std::size_t>(dim)].full;
    return add(node, Op::kScale, {sum(node, Op::kSum, x, dim)}, by);
  }

  int softmax(const BlockNode& node, int x, std::int64_t dim) {
    const int shifted = add(node, Op::kSubMax, {x, sum(node, Op::kMax, x, dim)});
    const int weights = add(node, Op::kExp, {shifted});
    return add(node, Op::kNormalize, {weights, sum(node, Op::kSum, weights, dim)});
  }

  int rms_norm(const BlockNode& node, const std::vector<int>& inputs) {
    Attributes shift;
    shift.factor = node.attributes.epsilon;
    const int square = add(node, Op::kSquare, {inputs[0]});
    const int shifted =
        add(node, Op::kAddConstant, {mean(node, square, static_cast<std::int64_t>(node.axes.size()) - 1)}, shift);
    const int normed = add(node, Op::kMul, {inputs[0], add(node, Op::kRsqrt, {shifted})});
    return inputs.size() == 1 ? normed : add(node, Op::kMul, {normed, inputs[1]});
  }

  int open(const BlockNode& node) {
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(made_[static_cast<std::size_t>(input)]);
    switch (node.op) {
      case Op::kMean:
        return mean(node, inputs[0], node.attributes.dim);
      case Op::kSoftmax:
        return softmax(node, inputs[0], node.attributes.dim);
      case Op::kRmsNorm:
        return rms_norm(node, inputs);
      default:
        break;
    }
    to_.nodes.push_back(node);
    to_.nodes.back().inputs = std::move(inputs);
    return static_cast<int>(to_.nodes.size()) - 1;
  }

  const BlockGraph& from_;
  BlockGraph to_;
  std::vector<int> made_;
};

// A product's dimensions and its tiles: few rows want narrow tiles and long steps, many want square ones.
struct ProductTiles {
  explicit ProductTiles(const KernelGraph& graph, const KernelNode& node) {
    const Dims &a = graph.spec(node.inputs[0]).dims, &result = graph.spec(node.outputs[0]).dims;
    rows = result[result.size() - 2];
    columns = result.back();
    inner = a[a.size() - (node.attributes.transpose_a ? 2 : 1)];
    few = rows <= 16;
    tile_rows = std::min<std::int64_t>(rows, few ? 16 : 64);
    tile_columns = std::min<std::int64_t>(columns, few ? 32 : 64);
    tile_inner = std::min<std::int64_t>(inner, few ? 128 : 64);
  }
  // Few rows wait for the other operand alone: more of it is kept under way.
  ThreadPlan threads() const {
    return {std::string(kTileFamily), std::nullopt, {{"warps", few ? 8 : 4}, {"stages", few ? 6 : 3}}};
  }

  std::int64_t rows, columns, inner, tile_rows, tile_columns, tile_inner;
  bool few;
};

// Grid: batch dimensions, rows, columns.
std::vector<std::int64_t> grid_of(const Dims& result, const ProductTiles& tiles) {
  std::vector<std::int64_t> grid(result.begin(), result.end() - 2);
  grid.push_back(ceil_div(tiles.rows, tiles.tile_rows));
  grid.push_back(ceil_div(tiles.columns, tiles.tile_columns));
  return grid;
}

// Batch dimensions stand right-aligned under the result's; those of size 1 are seen by all blocks.
TileMap batch_map(const Dims& dims, std::size_t grid_rank) {
  TileMap map;
  map.grid.resize(grid_rank);
  const std::size_t missing = grid_rank - dims.size();
  for (std::size_t at = 0; at + 2 < dims.size(); ++at) {
    if (dims[at] > 1) map.grid[at + missing] = {static_cast<std::int64_t>(at), 1};
  }
  return map;
}

// The dimension of a tensor, counted from its end.
std::int64_t from_end(const TensorSpec& spec, int back) {
  return static_cast<std::int64_t>(spec.dims.size()) - 1 - back;
}

BlockBuilder product_block(const KernelGraph& graph, const KernelNode& node, const std::vector<TensorSpec>& operands) {
  const ProductTiles tiles(graph, node);
  const TensorSpec &a = operands[0], &b = operands[1], &result = graph.spec(node.outputs[0]);
  const std::vector<std::int64_t> grid = grid_of(result.dims, tiles);
  const std::size_t row = grid.size() - 2, column = grid.size() - 1;
  const bool ta = node.attributes.transpose_a, tb = node.attributes.transpose_b;
  TileMap a_map = batch_map(a.dims, grid.size()), b_map = batch_map(b.dims, grid.size());
  TileMap out_map = batch_map(result.dims, grid.size());
  a_map.grid[row] = {from_end(a, ta ? 0 : 1), tiles.tile_rows};
  a_map.loop = {from_end(a, ta ? 1 : 0), tiles.tile_inner};
  b_map.grid[column] = {from_end(b, tb ? 1 : 0), tiles.tile_columns};
  b_map.loop = {from_end(b, tb ? 0 : 1), tiles.tile_inner};
  out_map.grid[row] = {from_end(result, 1), tiles.tile_rows};
  out_map.grid[column] = {from_end(result, 0), tiles.tile_columns};

  BlockBuilder block(operands, grid, ceil_div(tiles.inner, tiles.tile_inner));
  block.threads(tiles.threads());
  block.loop();
  const int left = block.load(0, a_map, "a_tile"), right = block.load(1, b_map, "b_tile");
  const int sum =
      block.add(Op::kAccumulate, {block.add(Op::kMatmul, {left, right}, node.attributes, "part")}, {}, "sum");
  block.after();
  block.store(sum, out_map, result, graph.tensor(node.outputs[0]).name);
  return block;
}

}  // namespace

BlockGraph open_rows(const BlockGraph& block) { return Opener(block).run(); }

Status tile_product(const KernelGraph& graph, const KernelNode& node, KernelGraph* tiled) {
  KernelBuilder kernel;
  std::vector<int> inputs, operands;
  for (const int input : graph.inputs()) inputs.push_back(kernel.input(graph.spec(input), graph.tensor(input).name));
  for (const int input : node.inputs) {
    const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), input) - graph.inputs().begin();
    operands.push_back(inputs[static_cast<std::size_t>(at)]);
  }
  kernel.custom(operands, product_block(graph, node, kernel.specs(operands)));
  return kernel.finish(tiled);
}

}  // namespace gqa

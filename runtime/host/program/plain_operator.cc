// plain_operator.cc: see plain_operator.h.
#include "runtime/host/program/plain_operator.h"

#include <algorithm>

namespace gqa {
namespace {

constexpr std::int64_t kTileElements = 16384;  // of an elementwise tile: 64 KiB
constexpr std::int64_t kFoldTile = 16384;      // elements of a fold's step; it takes a longer dimension in several
constexpr std::int64_t kFoldColumns = 64;      // side by side
constexpr std::int64_t kRows = 128, kColumns = 256, kLeastColumns = 64, kInner = 256;  // of a product's tiles
constexpr std::int64_t kBlocksAThread = 4;

std::int64_t tiles(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }

// The result's dimensions cut into tiles, each cut one a dimension of the grid; and the loop over one that the result
// has not, or has with size 1.
struct Cut {
  Dims result;  // dims
  Dims tiles;   // one a dimension
  std::vector<std::int64_t> grid() const {
    std::vector<std::int64_t> blocks;
    for (std::size_t at = 0; at < result.size(); ++at) {
      if (tiles[at] < result[at]) blocks.push_back(gqa::tiles(result[at], tiles[at]));
    }
    return blocks;
  }
  // `dims`: which of the result's dimensions each of the tensor's is; -1: none of them.
  TileMap map(const Dims& sizes, const std::vector<int>& dims) const {
    TileMap made;
    for (std::size_t at = 0; at < result.size(); ++at) {
      if (tiles[at] >= result[at]) continue;
      const auto found = std::find(dims.begin(), dims.end(), static_cast<int>(at));
      const auto dim = found - dims.begin();
      const bool cut = found != dims.end() && sizes[static_cast<std::size_t>(dim)] > 1;
      made.grid.push_back(cut ? Slice{dim, tiles[at]} : Slice{});
    }
    return made;
  }
};

// A tensor's dimensions as the result's, aligned at the right.
std::vector<int> right_aligned(std::size_t rank, std::size_t result) {
  std::vector<int> dims;
  for (std::size_t at = 0; at < rank; ++at) dims.push_back(static_cast<int>(at + result) - static_cast<int>(rank));
  return dims;
}

// Inner dimensions whole as long as a tile of so many elements holds them. `whole`: a dimension never cut; -1: none.
Dims row_tiles(const Dims& dims, std::int64_t whole, std::int64_t most) {
  Dims tiles(dims.size(), 1);
  std::int64_t held = 1;
  if (whole >= 0) held = tiles[static_cast<std::size_t>(whole)] = dims[static_cast<std::size_t>(whole)];
  for (std::size_t at = dims.size(); at-- > 0;) {
    if (static_cast<std::int64_t>(at) == whole) continue;
    tiles[at] = std::clamp<std::int64_t>(most / held, 1, dims[at]);
    held *= tiles[at];
  }
  return tiles;
}

std::int64_t work_for(const Dims& dims, int threads) {
  return std::clamp<std::int64_t>(elements(dims) / (kBlocksAThread * threads), 1024, kTileElements);
}

class Writer {
 public:
  Writer(const KernelGraph& graph, const KernelNode& node, int threads)
      : node_(node), result_(graph.spec(node.outputs[0])), threads_(threads) {
    for (const int input : node.inputs) made_.operands.push_back(graph.spec(input));
  }

  Status run(PlainOperator* made) {
    Status status = write();
    if (status.ok()) *made = std::move(made_);
    return status;
  }

 private:
  Status write() {
    switch (info(node_.op).kind) {
      case OpClass::kSource:
      case OpClass::kView:
        return view();
      case OpClass::kContraction:
        return product();
      case OpClass::kReduction:
        return fold();
      case OpClass::kRow:
        return rows(node_.op == Op::kSoftmax ? node_.attributes.dim : static_cast<std::int64_t>(rank()) - 1);
      default:
        return rows(-1);
    }
  }

  std::size_t rank() const { return result_.dims.size(); }
  const TensorSpec& operand(std::size_t at) const { return made_.operands[at]; }

  TensorSpec stored() const { return {result_.dims, result_.type, result_.strides}; }

  Status finish(BlockBuilder* block) { return block->finish(&made_.block); }

  // Elementwise and row operators: operands aligned at the right, one dimension perhaps whole.
  Status rows(std::int64_t whole) {
    const Cut cut = {result_.dims, row_tiles(result_.dims, whole, work_for(result_.dims, threads_))};
    BlockBuilder block(made_.operands, cut.grid());
    std::vector<int> loaded;
    for (std::size_t at = 0; at < made_.operands.size(); ++at) {
      const Dims& dims = operand(at).dims;
      loaded.push_back(block.load(static_cast<int>(at), cut.map(dims, right_aligned(dims.size(), rank()))));
    }
    const int value = block.add(node_.op, loaded, node_.attributes);
    block.store(value, cut.map(result_.dims, right_aligned(rank(), rank())), stored());
    return finish(&block);
  }

  // The operand under other dims and strides, copied.
  Status view() {
    if (node_.op == Op::kConstant) {
      made_.constant = static_cast<float>(node_.attributes.factor);
      made_.operands = {{result_.dims, ElementType::kF32, Dims(rank(), 0)}};
    } else {
      made_.operands = {{result_.dims, operand(0).type, view_strides()}};
    }
    if (Status status = check(&made_.operands[0]); !status.ok()) return status;
    const Cut cut = {result_.dims, row_tiles(result_.dims, -1, work_for(result_.dims, threads_))};
    const TileMap map = cut.map(result_.dims, right_aligned(rank(), rank()));
    BlockBuilder block(made_.operands, cut.grid());
    block.store(block.load(0, map), map, stored());
    return finish(&block);
  }

  Dims view_strides() const {
    const Dims own = strides_of(operand(0));
    Dims strides = own;
    if (node_.op == Op::kTranspose) {
      for (std::size_t at = 0; at < rank(); ++at)
        strides[at] = own[static_cast<std::size_t>(node_.attributes.dims[at])];
    } else if (node_.op == Op::kSqueeze) {
      strides.erase(strides.begin() + node_.attributes.dim);
    } else if (node_.op == Op::kUnsqueeze) {
      strides.insert(strides.begin() + node_.attributes.dim, 1);
    } else {  // broadcast
      strides.assign(rank(), 0);
      for (std::size_t back = 1; back <= own.size(); ++back) {
        if (operand(0).dims[own.size() - back] > 1) strides[rank() - back] = own[own.size() - back];
      }
    }
    return strides;
  }

  // A long dimension in steps.
  Status fold() {
    const auto dim = static_cast<std::size_t>(node_.attributes.dim);
    const Dims& dims = operand(0).dims;
    const std::int64_t size = dims[dim];
    if (size <= kFoldTile) {
      Dims tiles = row_tiles(dims, node_.attributes.dim, work_for(dims, threads_));
      return fold_whole({result_.dims, std::move(tiles)});
    }
    return fold_steps({result_.dims, row_tiles(result_.dims, -1, kFoldColumns)});
  }

  Status fold_whole(Cut cut) {
    cut.tiles[static_cast<std::size_t>(node_.attributes.dim)] = 1;
    const TileMap map = cut.map(operand(0).dims, right_aligned(rank(), rank()));
    BlockBuilder block(made_.operands, cut.grid());
    block.store(block.add(node_.op, {block.load(0, map)}, node_.attributes), map, stored());
    return finish(&block);
  }

  Status fold_steps(const Cut& cut) {
    const std::int64_t size = operand(0).dims[static_cast<std::size_t>(node_.attributes.dim)];
    const TileMap map = cut.map(operand(0).dims, right_aligned(rank(), rank()));
    const std::int64_t step = kFoldTile / elements(cut.tiles);
    TileMap steps = map;
    steps.loop = {node_.attributes.dim, step};
    BlockBuilder block(made_.operands, cut.grid(), tiles(size, step));
    block.loop();
    const bool maximum = node_.op == Op::kMax;
    const int part = block.add(maximum ? Op::kMax : Op::kSum, {block.load(0, steps)}, node_.attributes);
    int value = block.add(maximum ? Op::kAccumulateMax : Op::kAccumulate, {part});
    block.after();
    if (node_.op == Op::kMean) {
      Attributes divisor;
      divisor.count = size;
      value = block.add(Op::kScale, {value}, divisor);
    }
    block.store(value, map, stored());
    return finish(&block);
  }

  // Batches one by one, rows and columns in tiles, the inner dimension in steps. Fewer columns where threads would
  // idle.
  Cut product_cut() const {
    const Dims& dims = result_.dims;
    Cut cut = {dims, Dims(rank(), 1)};
    std::int64_t& rows = cut.tiles[rank() - 2];
    std::int64_t& columns = cut.tiles[rank() - 1];
    rows = std::min(dims[rank() - 2], kRows);
    columns = std::min(dims[rank() - 1], kColumns);
    const auto blocks = [&] {
      std::int64_t count = 1;
      for (const std::int64_t along : cut.grid()) count *= along;
      return count;
    };
    while (columns > kLeastColumns && blocks() < kBlocksAThread * threads_) columns = tiles(columns, 2);
    return cut;
  }

  // An operand of the product: its inner dimension swapped with the other one if transposed.
  int load_operand(BlockBuilder* block, const Cut& cut, int which, std::size_t inner, std::int64_t step) {
    const Dims& dims = operand(static_cast<std::size_t>(which)).dims;
    std::vector<int> of_result = right_aligned(dims.size(), rank());
    const std::size_t other = 2 * dims.size() - 3 - inner;
    of_result[inner] = -1;
    of_result[other] = static_cast<int>(rank()) - (which == 0 ? 2 : 1);
    TileMap map = cut.map(dims, of_result);
    if (step < dims[inner]) map.loop = {static_cast<std::int64_t>(inner), step};
    return block->load(which, map);
  }

  Status product() {
    const Cut cut = product_cut();
    const std::size_t a_rank = operand(0).dims.size(), b_rank = operand(1).dims.size();
    const std::size_t a_inner = a_rank - (node_.attributes.transpose_a ? 2 : 1);
    const std::size_t b_inner = b_rank - (node_.attributes.transpose_b ? 1 : 2);
    const std::int64_t inner = operand(0).dims[a_inner];
    BlockBuilder block(made_.operands, cut.grid(), tiles(inner, kInner));
    if (inner > kInner) block.loop();
    const int a = load_operand(&block, cut, 0, a_inner, kInner), b = load_operand(&block, cut, 1, b_inner, kInner);
    int value = block.add(Op::kMatmul, {a, b}, node_.attributes);
    if (inner > kInner) {
      value = block.add(Op::kAccumulate, {value});
      block.after();
    }
    block.store(value, cut.map(result_.dims, right_aligned(rank(), rank())), stored());
    return finish(&block);
  }

  const KernelNode& node_;
  const TensorSpec result_;
  const int threads_;
  PlainOperator made_;
};

}  // namespace

Status plain_operator(const KernelGraph& graph, const KernelNode& node, int threads, PlainOperator* made) {
  return Writer(graph, node, threads).run(made);
}

}  // namespace gqa

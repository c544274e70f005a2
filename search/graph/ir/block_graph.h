// block_graph.h: the block level of a µGraph: what the blocks of one kernel do, as data.
// Owns: BlockGraph: the grid, the loop, tiles loaded through imap and fmap, operators on them, accumulators over the
// loop, results stored through omap, and the thread plan beside it; its check; BlockBuilder, which writes one.
// Never: runs one (interpreter.h does) or knows a device's limits.
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/graph/ir/axis.h"
#include "search/graph/ir/op.h"
#include "search/graph/ir/tensor.h"
#include "search/graph/ir/thread_plan.h"

namespace gqa {

// A tensor dimension cut into tiles, one a block or one a step. dim -1: not cut; every block or step sees all of it.
struct Slice {
  std::int64_t dim = -1;
  std::int64_t tile = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// How a device tensor meets the grid and the loop. The block at position g of a grid dimension sees elements g tile ..
// (g + 1) tile of its slice's dim; a step s of the loop sees the s-th tile of what the block sees.
struct TileMap {
  std::vector<Slice> grid;  // imap or omap: one slice a grid dimension
  Slice loop;               // fmap
  friend bool operator==(const TileMap&, const TileMap&) = default;
};

enum class Phase : std::uint8_t { kBefore, kLoop, kAfter };  // once before the loop, each step, once after
inline constexpr Phase kPhases[] = {Phase::kBefore, Phase::kLoop, Phase::kAfter};
std::string_view name(Phase phase);  // "before", "loop", "after"

struct BlockNode {
  std::string name;  // of its value; unique in the block
  Op op = Op::kLoad;
  Attributes attributes = {};
  std::vector<int> inputs = {};  // earlier nodes
  Phase phase = Phase::kBefore;
  int operand = -1;  // load: of the custom operator
  TileMap map = {};  // load
  Axes axes = {};    // of its value; follows from the rest, check() fills it in
  friend bool operator==(const BlockNode&, const BlockNode&) = default;
};

inline Dims tile_dims(const BlockNode& node) { return tile_dims(node.axes); }

// A result of the custom operator. A value of the loop is stored each step (map.loop says where), any other at the end.
struct BlockStore {
  std::string name;  // of the result tensor; may be empty
  int value = -1;    // a node
  TileMap map;
  TensorSpec result;
  friend bool operator==(const BlockStore&, const BlockStore&) = default;
};

struct BlockGraph {
  std::vector<std::int64_t> grid;  // blocks along each grid dimension
  std::int64_t steps = 1;          // of the loop
  std::vector<BlockNode> nodes;    // before, loop, after
  std::vector<BlockStore> stores;
  ThreadPlan threads;
  friend bool operator==(const BlockGraph&, const BlockGraph&) = default;
};

std::int64_t blocks(const BlockGraph& block);

// The axes of a tensor under a map; fails where the map does not fit. Dimensions of size 1 stay whole: all blocks see
// them.
Status cut_axes(const Dims& dims, const TileMap& map, std::size_t grid_rank, Axes* axes);

// All rules: known operands; tiles that fit their dimensions; operands of earlier nodes and of the right phase (an
// accumulator's value is seen after the loop, a running maximum's also in it); shapes; every element of every result
// written once. Fills in each node's axes and counts dims from the start. That loads see everything they should is for
// equivalence to prove, not for this.
Status check(const std::vector<TensorSpec>& operands, BlockGraph* block);

// Writes a block graph in order: what stands before the loop, loop(), after(). Remembers the first error; finish()
// reports it.
class BlockBuilder {
 public:
  BlockBuilder(std::vector<TensorSpec> operands, std::vector<std::int64_t> grid, std::int64_t steps = 1);

  void loop() { phase_ = Phase::kLoop; }
  void after() { phase_ = Phase::kAfter; }
  int load(int operand, TileMap map, std::string name = "");
  int add(Op op, std::vector<int> inputs, Attributes attributes = {}, std::string name = "");
  void store(int value, TileMap map, TensorSpec result, std::string name = "");
  void threads(ThreadPlan plan) { block_.threads = std::move(plan); }
  std::size_t results() const { return block_.stores.size(); }
  const Status& status() const { return status_; }
  const Axes& axes(int node) const { return block_.nodes[static_cast<std::size_t>(node)].axes; }
  Status finish(BlockGraph* block);

 private:
  int push(BlockNode node);

  std::vector<TensorSpec> operands_;
  BlockGraph block_;
  Phase phase_ = Phase::kBefore;
  Status status_;
};

}  // namespace gqa

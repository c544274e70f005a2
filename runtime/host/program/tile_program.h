// tile_program.h: a block graph as the host runs it: steps on float32 tiles, each tile at its place in an arena.
// Owns: TileProgram, and its making: names opened (softmax, rms_norm, mean), accumulators as what they do each step,
// products added straight into the sums that alone read them, memory planned so that tiles share it where they can.
// Never: runs one (tile_runner.h does).
// Threads: a value; one program serves all threads.
#pragma once

#include <array>
#include <vector>

#include "runtime/host/program/ops.h"
#include "search/graph/ir/block_graph.h"

namespace gqa {

enum class StepKind : std::uint8_t {
  kLoad,       // to: the block's and step's part of a tensor
  kFill,       // to: all `value`
  kUnary,      // to = unary(a)
  kBinary,     // to = a op b, stretched where they meet
  kAddInto,    // to op= a, in the region of to that a covers
  kFold,       // to = a folded along dim
  kMultiply,   // to (+)= a b
  kMask,       // to = a, -inf outside the window
  kTranspose,  // to = a in another order of dimensions
  kStore,      // a part of a tensor: a
};

struct TileStep {
  StepKind kind = StepKind::kFill;
  Op op = Op::kAdd;
  int a = -1, b = -1, to = -1;  // values
  Attributes attributes = {};   // fold, multiply, mask, transpose
  UnaryStep unary = {};
  bool add = false;   // multiply: to what is there
  float value = 0;    // fill
  int tensor = -1;    // load: operand; store: result
  Axes target = {};   // store: the tensor's, as the blocks cut it
  Dims strides = {};  // load, store: the tensor's, in elements
  ElementType type = ElementType::kF32;
};

struct ArenaValue {
  Axes axes;
  std::int64_t offset = 0;  // floats from the arena's start
};

struct TileProgram {
  std::vector<std::int64_t> grid;
  std::int64_t steps = 1;
  std::vector<ArenaValue> values;
  std::array<std::vector<TileStep>, 3> phases;  // by Phase
  std::int64_t arena = 0;                       // floats
};

// The block graph is of operands of these specs, checked.
TileProgram tile_program(const BlockGraph& block, const std::vector<TensorSpec>& operands);

}  // namespace gqa

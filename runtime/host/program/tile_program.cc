// tile_program.cc: see tile_program.h.
#include "runtime/host/program/tile_program.h"

#include <algorithm>

#include "runtime/host/program/tile_memory.h"

namespace gqa {
namespace {

Attributes along(std::int64_t dim) {
  Attributes attributes;
  attributes.dim = dim;
  return attributes;
}

Attributes with_factor(double factor, std::int64_t count = 1) {
  Attributes attributes;
  attributes.factor = factor;
  attributes.count = count;
  return attributes;
}

UnaryStep unary_step(Op op, const Attributes& attributes) {
  UnaryStep step;
  step.op = op;
  step.low = static_cast<float>(attributes.low);
  step.high = static_cast<float>(attributes.high);
  step.factor = static_cast<float>(attributes.factor / static_cast<double>(attributes.count));
  return step;
}

Axes folded(Axes axes, std::int64_t dim) {
  axes[static_cast<std::size_t>(dim)] = whole_axis(1);
  return axes;
}

class Compiler {
 public:
  Compiler(const BlockGraph& block, const std::vector<TensorSpec>& operands)
      : block_(block), operands_(operands), value_of_(block.nodes.size(), -1), change_of_(block.nodes.size(), -1) {
    program_.grid = block.grid;
    program_.steps = block.steps;
  }

  TileProgram run() {
    for (std::size_t at = 0; at < block_.nodes.size(); ++at) {
      phase_ = block_.nodes[at].phase;
      write(at);
    }
    for (std::size_t at = 0; at < block_.stores.size(); ++at) store(at);
    plan_memory(&program_);
    return std::move(program_);
  }

 private:
  const BlockNode& node(int at) const { return block_.nodes[static_cast<std::size_t>(at)]; }
  int value(int at) const { return value_of_[static_cast<std::size_t>(at)]; }
  std::vector<TileStep>& steps(Phase phase) { return program_.phases[static_cast<std::size_t>(phase)]; }

  int new_value(Axes axes) {
    program_.values.push_back({std::move(axes), 0});
    return static_cast<int>(program_.values.size()) - 1;
  }

  void push(TileStep step) { steps(phase_).push_back(std::move(step)); }

  void write(std::size_t at) {
    const BlockNode& made = block_.nodes[at];
    if (info(made.op).kind == OpClass::kAccumulator) return accumulate(at);
    if (made.op == Op::kMatmul && added_into_sum(static_cast<int>(at))) return;  // its accumulator writes it
    if (made.op == Op::kLoad) {
      value_of_[at] = new_value(made.axes);
      return load(made, value_of_[at]);
    }
    std::vector<int> inputs;
    for (const int input : made.inputs) inputs.push_back(value(input));
    value_of_[at] = apply(made.op, made.attributes, inputs, made.axes);
  }

  void load(const BlockNode& made, int to) {
    const TensorSpec& spec = operands_[static_cast<std::size_t>(made.operand)];
    TileStep step;
    step.kind = StepKind::kLoad;
    step.to = to;
    step.tensor = made.operand;
    step.strides = strides_of(spec);
    step.type = spec.type;
    push(std::move(step));
  }

  void store(std::size_t at) {
    const BlockStore& made = block_.stores[at];
    phase_ = made.map.loop.dim >= 0 ? Phase::kLoop : Phase::kAfter;
    TileStep step;
    step.kind = StepKind::kStore;
    step.a = value(made.value);
    step.tensor = static_cast<int>(at);
    step.strides = strides_of(made.result);
    step.type = made.result.type;
    const Status status = cut_axes(made.result.dims, made.map, block_.grid.size(), &step.target);
    (void)status;  // check() has been there
    push(std::move(step));
  }

  // ---- operators

  int emit(StepKind kind, Op op, const Attributes& attributes, const std::vector<int>& inputs, const Axes& axes) {
    TileStep step;
    step.kind = kind;
    step.op = op;
    step.attributes = attributes;
    step.unary = unary_step(op, attributes);
    step.a = inputs[0];
    if (inputs.size() > 1) step.b = inputs[1];
    step.to = new_value(axes);
    push(step);
    return step.to;
  }

  int unary(Op op, int x, const Attributes& attributes = {}) {
    return emit(StepKind::kUnary, op, attributes, {x}, axes_of(x));
  }

  int binary(Op op, int a, int b, const Axes& axes) { return emit(StepKind::kBinary, op, {}, {a, b}, axes); }

  int fold(Op op, int x, std::int64_t dim) {
    return emit(StepKind::kFold, op, along(dim), {x}, folded(axes_of(x), dim));
  }

  // A copy: adding a value moves what axes_of() gave.
  Axes axes_of(int value) const { return program_.values[static_cast<std::size_t>(value)].axes; }

  int mean(int x, std::int64_t dim) {
    const std::int64_t size = axes_of(x)[static_cast<std::size_t>(dim)].full;
    return unary(Op::kScale, fold(Op::kSum, x, dim), with_factor(1, size));
  }

  int softmax(int x, std::int64_t dim) {
    const Axes axes = axes_of(x);
    const int weights = unary(Op::kExp, binary(Op::kSubMax, x, fold(Op::kMax, x, dim), axes));
    return binary(Op::kNormalize, weights, fold(Op::kSum, weights, dim), axes);
  }

  int rms_norm(const Attributes& attributes, const std::vector<int>& inputs) {
    const Axes axes = axes_of(inputs[0]);
    const int squares = mean(unary(Op::kSquare, inputs[0]), static_cast<std::int64_t>(axes.size()) - 1);
    const int root = unary(Op::kRsqrt, unary(Op::kAddConstant, squares, with_factor(attributes.epsilon)));
    const int normed = binary(Op::kMul, inputs[0], root, axes);
    return inputs.size() == 1 ? normed : binary(Op::kMul, normed, inputs[1], axes);
  }

  int apply(Op op, const Attributes& attributes, const std::vector<int>& inputs, const Axes& axes) {
    switch (op) {
      case Op::kMatmul:
        return emit(StepKind::kMultiply, op, attributes, inputs, axes);
      case Op::kSum:
      case Op::kMax:
        return fold(op, inputs[0], attributes.dim);
      case Op::kMean:
        return mean(inputs[0], attributes.dim);
      case Op::kSoftmax:
        return softmax(inputs[0], attributes.dim);
      case Op::kRmsNorm:
        return rms_norm(attributes, inputs);
      case Op::kMask:
        return emit(StepKind::kMask, op, attributes, inputs, axes);
      case Op::kTranspose:
        return emit(StepKind::kTranspose, op, attributes, inputs, axes);
      default:  // elementwise; squeeze and unsqueeze copy
        return emit(inputs.size() == 1 ? StepKind::kUnary : StepKind::kBinary, op, attributes, inputs, axes);
    }
  }

  // ---- accumulators

  // A value that starts as `value` before the loop.
  int begin(const Axes& axes, float value) {
    TileStep step;
    step.to = new_value(axes);
    step.value = value;
    steps(Phase::kBefore).push_back(step);
    return step.to;
  }

  void update(StepKind kind, Op op, int to, int a, int b = -1) {
    TileStep step;
    step.kind = kind;
    step.op = op;
    step.unary.op = op;
    step.to = to;
    step.a = a;
    step.b = b;
    push(step);
  }

  void accumulate(std::size_t at) {
    const BlockNode& made = block_.nodes[at];
    const bool maximum = made.op == Op::kRunningMax || made.op == Op::kAccumulateMax;
    const int sum = begin(made.axes, maximum ? -static_cast<float>(kInfinity) : 0.F);
    value_of_[at] = sum;
    if (made.op == Op::kRunningMax) return running_max(at);
    if (made.op == Op::kAccumulateRescaled)
      update(StepKind::kBinary, Op::kMul, sum, sum, change_of_[static_cast<std::size_t>(made.inputs[1])]);
    if (added_into_sum(made.inputs[0])) return add_product(node(made.inputs[0]), sum);
    update(StepKind::kAddInto, maximum ? Op::kMax : Op::kAdd, sum, value(made.inputs[0]));
  }

  // Beside the maximum: what sums under the one before are to be multiplied with.
  void running_max(std::size_t at) {
    const BlockNode& made = block_.nodes[at];
    const int maximum = value_of_[at], before = new_value(made.axes);
    update(StepKind::kUnary, Op::kSqueeze, before, maximum);  // a copy
    update(StepKind::kBinary, Op::kMax, maximum, maximum, value(made.inputs[0]));
    change_of_[at] = unary(Op::kExp, binary(Op::kSubMax, before, maximum, made.axes));
  }

  int readers(int at) const {
    std::int64_t count = 0;
    for (const BlockNode& reader : block_.nodes) count += std::count(reader.inputs.begin(), reader.inputs.end(), at);
    for (const BlockStore& reader : block_.stores) count += reader.value == at;
    return static_cast<int>(count);
  }

  // A product that a sum alone reads, and whose tile is the sum's at every step.
  bool added_into_sum(int at) const {
    const BlockNode& product = node(at);
    if (product.op != Op::kMatmul || product.phase != Phase::kLoop || readers(at) != 1) return false;
    if (std::any_of(product.axes.begin(), product.axes.end(), [](const Axis& axis) { return axis.loop; })) return false;
    return std::any_of(block_.nodes.begin(), block_.nodes.end(), [&](const BlockNode& reader) {
      return (reader.op == Op::kAccumulate || reader.op == Op::kAccumulateRescaled) && reader.inputs[0] == at;
    });
  }

  void add_product(const BlockNode& product, int sum) {
    TileStep step;
    step.kind = StepKind::kMultiply;
    step.op = Op::kMatmul;
    step.attributes = product.attributes;
    step.a = value(product.inputs[0]);
    step.b = value(product.inputs[1]);
    step.to = sum;
    step.add = true;
    push(step);
  }

  const BlockGraph& block_;
  const std::vector<TensorSpec>& operands_;
  TileProgram program_;
  Phase phase_ = Phase::kBefore;
  std::vector<int> value_of_;   // of each node
  std::vector<int> change_of_;  // of each running maximum
};

}  // namespace

TileProgram tile_program(const BlockGraph& block, const std::vector<TensorSpec>& operands) {
  return Compiler(block, operands).run();
}

}  // namespace gqa

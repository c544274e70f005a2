// interpreter.h: runs a kernel graph as it says, down to each block and step of its custom operators, over any algebra.
// Owns: the order of things: kernels one after another, blocks of a grid, before the loop, its steps, after it; loads
// and stores through their maps; what accumulators carry.
// Never: knows what a value is; operators.h computes.
// Threads: one interpreter a thread.
#pragma once

#include <utility>
#include <vector>

#include "search/graph/ir/kernel_graph.h"
#include "search/graph/prove/operators.h"

namespace gqa {

template <typename Algebra>
class BlockInterpreter {
 public:
  using Tensor = typename Operators<Algebra>::Tensor;
  using Value = typename Algebra::Value;

  BlockInterpreter(Algebra& algebra, const BlockGraph& block, const std::vector<const Tensor*>& operands,
                   const Stop& stop)
      : algebra_(algebra), operators_(algebra, {stop, {}}), stop_(stop), block_(block), operands_(operands) {
    for (const BlockStore& store : block.stores) {
      results_.emplace_back(store.result.dims, algebra.zero());
      Status status = cut_axes(store.result.dims, store.map, block.grid.size(), &targets_.emplace_back());
      (void)status;  // check() has been there
    }
  }

  std::vector<Tensor> run() {
    walk<1>(block_.grid, {Dims(block_.grid.size(), 0)}, [&](const auto&) {
      if (!stop_ || !stop_()) run_block();
      next_position();
    });
    return std::move(results_);
  }

 private:
  struct State {
    Tensor value;   // of this step; of an accumulator: up to it
    Tensor before;  // of a running maximum: up to the step before
  };

  void next_position() {
    for (std::size_t at = position_.size(); at-- > 0;) {
      if (++position_[at] < block_.grid[at]) return;
      position_[at] = 0;
    }
  }

  void run_block() {
    states_.assign(block_.nodes.size(), {});
    run_phase(Phase::kBefore, 0);
    for (std::int64_t step = 0; step < block_.steps; ++step) {
      run_phase(Phase::kLoop, step);
      store_results(true, step);
    }
    run_phase(Phase::kAfter, 0);
    store_results(false, 0);
  }

  void run_phase(Phase phase, std::int64_t step) {
    for (std::size_t at = 0; at < block_.nodes.size(); ++at) {
      const BlockNode& node = block_.nodes[at];
      if (node.phase != phase) continue;
      if (info(node.op).kind == OpClass::kAccumulator) {
        if (step == 0) begin(node, &states_[at]);
        accumulate(node, &states_[at]);
      } else {
        states_[at].value = node.op == Op::kLoad ? load(node, step) : compute(node, step);
      }
    }
  }

  // The part of a value with these axes that this block sees in this step.
  std::pair<Dims, Dims> region(const Axes& axes, std::int64_t step) const {
    std::pair<Dims, Dims> found;
    for (const Axis& axis : axes) {
      const Extent extent = axis.at(position_, step);
      found.first.push_back(extent.begin);
      found.second.push_back(extent.size);
    }
    return found;
  }

  Tensor load(const BlockNode& node, std::int64_t step) const {
    const auto [begin, size] = region(node.axes, step);
    return read_region(*operands_[static_cast<std::size_t>(node.operand)], begin, size);
  }

  const Tensor& input(const BlockNode& node, std::size_t at) const {
    return states_[static_cast<std::size_t>(node.inputs[at])].value;
  }

  Tensor compute(const BlockNode& node, std::int64_t step) const {
    std::vector<const Tensor*> inputs;
    for (std::size_t at = 0; at < node.inputs.size(); ++at) inputs.push_back(&input(node, at));
    Place place;
    if (node.op == Op::kMask) {
      const Axis &row = node.axes[node.axes.size() - 2], &column = node.axes.back();
      place = {row.at(position_, step).begin, column.at(position_, step).begin, row.full, column.full, {}, {}};
    }
    return operators_.apply(node.op, node.attributes, place, inputs);
  }

  void begin(const BlockNode& node, State* state) const {
    const bool maximum = node.op == Op::kRunningMax || node.op == Op::kAccumulateMax;
    state->value = Tensor(region(node.axes, 0).second, maximum ? algebra_.lowest() : algebra_.zero());
  }

  void accumulate(const BlockNode& node, State* state) {
    const Tensor& x = input(node, 0);
    const Dims origin(x.dims.size(), 0);
    if (node.op == Op::kRunningMax) {
      state->before = state->value;
      for (std::size_t at = 0; at < x.data.size(); ++at)
        state->value.data[at] = algebra_.running_max(state->before.data[at], x.data[at]);
      return;
    }
    if (node.op == Op::kAccumulateRescaled) state->value = rescale(node, state->value);
    const bool maximum = node.op == Op::kAccumulateMax;
    update_region(&state->value, origin, x, [&](Value& sum, const Value& term) {
      sum = maximum ? algebra_.max(sum, term) : algebra_.binary(Op::kAdd, sum, term);
    });
  }

  // What was summed under the maximum before, brought under the maximum now.
  Tensor rescale(const BlockNode& node, const Tensor& sum) const {
    const State& maximum = states_[static_cast<std::size_t>(node.inputs[1])];
    const Tensor change = operators_.binary(Op::kSubMax, maximum.before, maximum.value);
    return operators_.binary(Op::kMul, sum, operators_.unary(Op::kExp, {}, change));
  }

  void store_results(bool each_step, std::int64_t step) {
    for (std::size_t at = 0; at < block_.stores.size(); ++at) {
      const BlockStore& store = block_.stores[at];
      if ((store.map.loop.dim >= 0) != each_step) continue;
      const Dims begin = region(targets_[at], step).first;
      update_region(&results_[at], begin, states_[static_cast<std::size_t>(store.value)].value,
                    [](Value& to, const Value& from) { to = from; });
    }
  }

  Algebra& algebra_;
  Operators<Algebra> operators_;
  const Stop& stop_;
  const BlockGraph& block_;
  const std::vector<const Tensor*>& operands_;
  std::vector<Axes> targets_;
  std::vector<Tensor> results_;
  std::vector<State> states_;
  std::vector<std::int64_t> position_ = std::vector<std::int64_t>(block_.grid.size(), 0);
};

// Where a mask at kernel level lies: it is the whole.
inline Place place_of(const KernelGraph& graph, const KernelNode& node) {
  if (node.op != Op::kMask) return {};
  const Dims& dims = graph.spec(node.outputs[0]).dims;
  return {0, 0, dims[dims.size() - 2], dims.back(), {}, {}};
}

// Inputs in the order of graph.inputs(), of their dims; outputs in the order of graph.outputs(). Once the workers are
// told to stop, what comes out means nothing. places, where given: one a node, instead of place_of().
template <typename Algebra>
std::vector<DenseTensor<typename Algebra::Value>> interpret(const KernelGraph& graph, Algebra& algebra,
                                                            std::vector<DenseTensor<typename Algebra::Value>> inputs,
                                                            const Workers& workers = {},
                                                            const std::vector<Place>& places = {}) {
  using Tensor = DenseTensor<typename Algebra::Value>;
  const Operators<Algebra> operators(algebra, workers);
  std::vector<Tensor> tensors(graph.tensors().size());
  for (std::size_t at = 0; at < inputs.size(); ++at)
    tensors[static_cast<std::size_t>(graph.inputs()[at])] = std::move(inputs[at]);
  for (std::size_t step = 0; step < graph.nodes().size(); ++step) {
    const KernelNode& node = graph.nodes()[step];
    std::vector<const Tensor*> operands;
    for (const int input : node.inputs) operands.push_back(&tensors[static_cast<std::size_t>(input)]);
    std::vector<Tensor> results;
    if (node.block) {
      results = BlockInterpreter<Algebra>(algebra, *node.block, operands, workers.stop).run();
    } else {
      const Place place = places.empty() ? place_of(graph, node) : places[step];
      results.push_back(operators.apply(node.op, node.attributes, place, operands));
    }
    for (std::size_t at = 0; at < results.size(); ++at) {
      operators.settle(graph.spec(node.outputs[at]).type, &results[at]);
      tensors[static_cast<std::size_t>(node.outputs[at])] = std::move(results[at]);
    }
  }
  std::vector<Tensor> outputs;
  for (const int output : graph.outputs()) outputs.push_back(tensors[static_cast<std::size_t>(output)]);
  return outputs;
}

}  // namespace gqa

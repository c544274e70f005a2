// reorder.cc: see canonical.h: reorder() and inverse().
#include "search/graph/ir/canonical.h"

namespace gqa {
namespace {

int& at(std::vector<int>& values, int index) { return values[static_cast<std::size_t>(index)]; }

Status copy_node(const KernelGraph& graph, const KernelNode& node, std::vector<int>* made, KernelGraph* ordered) {
  std::vector<int> inputs;
  for (const int input : node.inputs) inputs.push_back(at(*made, input));
  if (!node.block) {
    const int result = node.outputs[0];
    return ordered->add(node.op, inputs, node.attributes, &at(*made, result), graph.tensor(result).name);
  }
  std::vector<int> results;
  if (Status status = ordered->add_custom(inputs, *node.block, &results); !status.ok()) return status;
  for (std::size_t i = 0; i < results.size(); ++i) at(*made, node.outputs[i]) = results[i];
  return {};
}

}  // namespace

Status reorder(const KernelGraph& graph, const std::vector<int>& inputs, const std::vector<int>& outputs,
               KernelGraph* ordered) {
  KernelGraph fresh;
  std::vector<int> made(graph.tensors().size(), -1);
  for (const int place : inputs) {
    const int input = graph.inputs()[static_cast<std::size_t>(place)];
    if (Status s = fresh.add_input(graph.spec(input), &at(made, input), graph.tensor(input).name); !s.ok()) return s;
  }
  for (const KernelNode& node : graph.nodes())
    if (Status s = copy_node(graph, node, &made, &fresh); !s.ok()) return s;
  const std::vector<int> results = graph.outputs();
  for (const int place : outputs)
    if (Status s = fresh.mark_output(at(made, results[static_cast<std::size_t>(place)])); !s.ok()) return s;
  *ordered = std::move(fresh);
  return {};
}

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) at(places, order[i]) = static_cast<int>(i);
  return places;
}

}  // namespace gqa

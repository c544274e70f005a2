// graph_editor.cc: see graph_editor.h.
#include "search/graph/ir/graph_editor.h"

#include <algorithm>

namespace gqa {
namespace {

std::string key_of(Op op, std::vector<int> inputs, const Attributes& attributes) {
  if (info(op).commutes) std::sort(inputs.begin(), inputs.end());
  std::string key = std::string(name(op)) + to_text(attributes);
  for (const int input : inputs) key += "," + std::to_string(input);
  return key;
}

}  // namespace

std::vector<std::vector<int>> readers(const KernelGraph& graph) {
  std::vector<std::vector<int>> found(graph.tensors().size());
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    for (const int input : graph.nodes()[at].inputs)
      found[static_cast<std::size_t>(input)].push_back(static_cast<int>(at));
  }
  return found;
}

GraphEditor::GraphEditor(const KernelGraph& from, ValueOrigin origin)
    : from_(from), origin_(origin), made_(from.tensors().size(), -1) {
  for (const KernelTensor& tensor : from.tensors()) origins_.push_back(tensor.origin);
  for (const int input : from.inputs()) {
    int tensor = -1;
    if (graph_.add_input(from.spec(input), &tensor, from.tensor(input).name).ok()) replace(input, tensor);
  }
}

int GraphEditor::keep(int tensor) {
  int& made = made_[static_cast<std::size_t>(tensor)];
  if (made >= 0 || from_.tensor(tensor).node < 0) return made;
  const KernelNode& node = from_.nodes()[static_cast<std::size_t>(from_.tensor(tensor).node)];
  const std::vector<int> inputs = keep(node.inputs);
  const auto named = names_.find(tensor);
  const std::string& name = named == names_.end() ? from_.tensor(tensor).name : named->second;
  if (!node.block)
    return made = add(node.op, inputs, node.attributes, name, origins_[static_cast<std::size_t>(tensor)]);
  const std::vector<int> results = add_custom(inputs, *node.block);
  for (std::size_t at = 0; at < results.size(); ++at) replace(node.outputs[at], results[at]);
  return made;
}

std::vector<int> GraphEditor::keep(const std::vector<int>& tensors) {
  std::vector<int> kept;
  for (const int tensor : tensors) kept.push_back(keep(tensor));
  return kept;
}

void GraphEditor::replace(int tensor, int made) {
  made_[static_cast<std::size_t>(tensor)] = settle(made, origins_[static_cast<std::size_t>(tensor)]);
}

int GraphEditor::settle(int made, ValueOrigin origin) {
  if (made >= 0) graph_.set_origin(made, std::min(graph_.tensor(made).origin, origin));
  return made;
}

int GraphEditor::add(Op op, const std::vector<int>& inputs, const Attributes& attributes, const std::string& wanted,
                     ValueOrigin origin) {
  if (std::count(inputs.begin(), inputs.end(), -1) > 0) return -1;
  const auto [known, fresh] = known_.emplace(key_of(op, inputs, attributes), -1);
  const std::string name = graph_.find(wanted) < 0 ? wanted : "";
  if (!fresh) return settle(known->second, origin);
  if (!graph_.add(op, inputs, attributes, &known->second, name).ok()) return known->second = -1;
  graph_.set_origin(known->second, origin);
  return known->second;
}

std::vector<int> GraphEditor::add_custom(const std::vector<int>& inputs, const BlockGraph& block) {
  BlockGraph unnamed = block;
  for (BlockStore& store : unnamed.stores) store.name.clear();
  std::vector<int> results;
  if (std::count(inputs.begin(), inputs.end(), -1) > 0 || !graph_.add_custom(inputs, unnamed, &results).ok())
    return std::vector<int>(block.stores.size(), -1);
  return results;
}

bool GraphEditor::mark_outputs() {
  for (const int output : from_.outputs()) {
    const int made = keep(output);
    if (made < 0 || spec(made).dims != from_.spec(output).dims || spec(made).type != from_.spec(output).type)
      return false;
    if (!graph_.mark_output(made).ok()) return false;
  }
  return true;
}

// A rule may have kept what nobody reads any more: copying once more leaves it out.
std::optional<KernelGraph> GraphEditor::finish() {
  if (!mark_outputs()) return std::nullopt;
  GraphEditor live(graph_);
  const std::vector<int> outputs = from_.outputs(), made = graph_.outputs();
  for (std::size_t at = 0; at < outputs.size(); ++at) live.names_[made[at]] = from_.tensor(outputs[at]).name;
  if (!live.mark_outputs()) return std::nullopt;
  return std::move(live.graph_);
}

}  // namespace gqa

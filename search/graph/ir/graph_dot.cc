// graph_dot.cc: see graph_dot.h. Names are letters, digits and _, so nothing needs escaping.
#include "search/graph/ir/graph_dot.h"

namespace gqa {
namespace {

std::string slice_text(const std::string& what, const Slice& slice) {
  if (slice.dim < 0) return "";
  return "\\n" + what + " cuts dim " + std::to_string(slice.dim) + " by " + std::to_string(slice.tile);
}

std::string slices_text(const TileMap& map) {
  std::string text;
  for (std::size_t at = 0; at < map.grid.size(); ++at) text += slice_text("grid " + std::to_string(at), map.grid[at]);
  return text + slice_text("loop", map.loop);
}

std::string tensor_id(int tensor) { return "tensor" + std::to_string(tensor); }
std::string node_id(std::size_t node) { return "node" + std::to_string(node); }
std::string block_id(std::size_t node, int at) { return node_id(node) + "_" + std::to_string(at); }
std::string edge(const std::string& from, const std::string& to) { return "  " + from + " -> " + to + ";\n"; }

std::string oval(const std::string& id, const std::string& label) {
  return "  " + id + " [label=\"" + label + "\"];\n";
}

std::string block_node_text(std::size_t node, const BlockGraph& block, int at) {
  const BlockNode& item = block.nodes[static_cast<std::size_t>(at)];
  return oval(block_id(node, at), item.name + " = " + std::string(name(item.op)) + to_text(item.attributes) + "\\n" +
                                      to_text(tile_dims(item.axes)) + slices_text(item.map));
}

// The nodes of one phase; those of the loop in a cluster of their own.
std::string phase_text(std::size_t node, const BlockGraph& block, Phase phase) {
  std::string text;
  for (std::size_t at = 0; at < block.nodes.size(); ++at) {
    if (block.nodes[at].phase == phase) text += block_node_text(node, block, static_cast<int>(at));
  }
  if (phase != Phase::kLoop || text.empty()) return text;
  return "  subgraph cluster_" + node_id(node) + "_loop {\n  style=dashed; label=\"loop of " +
         std::to_string(block.steps) + " steps\";\n" + text + "  }\n";
}

std::string custom_text(std::size_t at, const KernelNode& node) {
  const BlockGraph& block = *node.block;
  std::string text = "  subgraph cluster_" + node_id(at) + " {\n  style=rounded; label=\"custom, grid " +
                     to_text(block.grid) + (block.threads.family.empty() ? "" : "\\n" + to_text(block.threads)) +
                     "\";\n";
  for (const Phase phase : kPhases) text += phase_text(at, block, phase);
  text += "  }\n";
  for (std::size_t to = 0; to < block.nodes.size(); ++to) {
    const BlockNode& item = block.nodes[to];
    const std::string target = block_id(at, static_cast<int>(to));
    if (item.op == Op::kLoad) text += edge(tensor_id(node.inputs[static_cast<std::size_t>(item.operand)]), target);
    for (const int from : item.inputs) text += edge(block_id(at, from), target);
  }
  for (std::size_t store = 0; store < block.stores.size(); ++store)
    text += edge(block_id(at, block.stores[store].value), tensor_id(node.outputs[store]));
  return text;
}

std::string node_text(std::size_t at, const KernelNode& node) {
  if (node.block) return custom_text(at, node);
  std::string text = oval(node_id(at), std::string(name(node.op)) + to_text(node.attributes));
  for (const int input : node.inputs) text += edge(tensor_id(input), node_id(at));
  return text + edge(node_id(at), tensor_id(node.outputs[0]));
}

}  // namespace

std::string to_dot(const KernelGraph& graph) {
  std::string text = "digraph mugraph {\n  rankdir=TB; node [fontname=\"monospace\", fontsize=10];\n";
  for (std::size_t at = 0; at < graph.tensors().size(); ++at) {
    const KernelTensor& tensor = graph.tensors()[at];
    text += "  " + tensor_id(static_cast<int>(at)) + " [shape=box, label=\"" + tensor.name + "\\n" +
            std::string(name(tensor.spec.type)) + to_text(tensor.spec.dims) + "\"];\n";
  }
  for (const int output : graph.outputs()) text += "  " + tensor_id(output) + " [penwidth=2];\n";
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) text += node_text(at, graph.nodes()[at]);
  return text + "}\n";
}

}  // namespace gqa

// graph_json.cc: see graph_json.h. Attributes pass through their text, so that a new one needs no line here.
#include "search/graph/ir/graph_json.h"

#include <nlohmann/json.hpp>

#include "search/text.h"

namespace gqa {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// ---- writing

ordered_json attributes_json(const Attributes& attributes) {
  ordered_json object = ordered_json::object();
  const std::string text = to_text(attributes);
  for (const std::string_view item : split_text(text, ' ')) {
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const std::string value(item.substr(equals + 1));
    ordered_json number = ordered_json::parse(value, nullptr, false);  // "inf" and "f16" are no JSON: strings
    object[std::string(item.substr(0, equals))] = number.is_discarded() ? ordered_json(value) : number;
  }
  return object;
}

ordered_json spec_json(const std::string& name, const TensorSpec& spec) {
  ordered_json object = {{"name", name}, {"type", std::string(gqa::name(spec.type))}, {"dims", spec.dims}};
  if (!spec.strides.empty()) object["strides"] = spec.strides;
  return object;
}

ordered_json slice_json(const Slice& slice) {
  if (slice.dim < 0) return nullptr;
  return {slice.dim, slice.tile};
}

ordered_json map_json(const TileMap& map) {
  ordered_json grid = ordered_json::array();
  for (const Slice& slice : map.grid) grid.push_back(slice_json(slice));
  return {{"grid", grid}, {"loop", slice_json(map.loop)}};
}

ordered_json block_node_json(const BlockNode& node) {
  ordered_json object = {
      {"name", node.name}, {"op", std::string(name(node.op))}, {"phase", std::string(name(node.phase))}};
  if (node.op == Op::kLoad) {
    object["operand"] = node.operand;
    object["map"] = map_json(node.map);
    return object;
  }
  object["inputs"] = node.inputs;
  object["attributes"] = attributes_json(node.attributes);
  return object;
}

void add_block(const BlockGraph& block, ordered_json* object) {
  (*object)["grid"] = block.grid;
  (*object)["steps"] = block.steps;
  (*object)["threads"] = to_text(block.threads);
  ordered_json nodes = ordered_json::array(), stores = ordered_json::array();
  for (const BlockNode& node : block.nodes) nodes.push_back(block_node_json(node));
  for (const BlockStore& store : block.stores) {
    ordered_json item = spec_json(store.name, store.result);
    item["value"] = store.value;
    item["map"] = map_json(store.map);
    stores.push_back(std::move(item));
  }
  (*object)["block"] = std::move(nodes);
  (*object)["stores"] = std::move(stores);
}

ordered_json node_json(const KernelGraph& graph, const KernelNode& node) {
  ordered_json names = ordered_json::array();
  for (const int input : node.inputs) names.push_back(graph.tensor(input).name);
  ordered_json object = {{"op", std::string(name(node.op))}, {"inputs", names}};
  if (node.block) {
    add_block(*node.block, &object);
    return object;
  }
  object["name"] = graph.tensor(node.outputs[0]).name;
  object["attributes"] = attributes_json(node.attributes);
  return object;
}

// ---- reading: json throws where a key is missing or of another type; parse_json() turns that into a Status

struct Refused {
  Status status;
};

void must(const Status& status) {
  if (!status.ok()) throw Refused{status};
}

std::string item_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.dump();
}

Op read_op(const json& object) {
  const std::string text = object.at("op").get<std::string>();
  const OpInfo* row = find_op(text);
  if (!row) must(text_error("unknown operator " + quote(text) + ": expected " + op_names(Level::kBoth)));
  return row->op;
}

Attributes read_attributes(Op op, const json& object) {
  Attributes attributes;
  for (const auto& [key, value] : object.at("attributes").items())
    must(parse_attribute(op, key + "=" + item_text(value), &attributes));
  return attributes;
}

TensorSpec read_spec(const json& object) {
  TensorSpec spec;
  must(parse(object.at("type").get<std::string>(), &spec.type));
  spec.dims = object.at("dims").get<Dims>();
  if (object.contains("strides")) spec.strides = object.at("strides").get<Dims>();
  return spec;
}

Slice read_slice(const json& value) {
  if (value.is_null()) return {};
  return {value.at(0).get<std::int64_t>(), value.at(1).get<std::int64_t>()};
}

TileMap read_map(const json& object) {
  TileMap map;
  for (const json& slice : object.at("grid")) map.grid.push_back(read_slice(slice));
  map.loop = read_slice(object.at("loop"));
  return map;
}

Phase read_phase(const json& object) {
  const std::string text = object.at("phase").get<std::string>();
  for (const Phase phase : kPhases) {
    if (text == name(phase)) return phase;
  }
  must(text_error("phase " + quote(text) + ": expected before, loop or after"));
  return Phase::kBefore;
}

BlockNode read_block_node(const json& object) {
  BlockNode node;
  node.name = object.at("name").get<std::string>();
  node.op = read_op(object);
  node.phase = read_phase(object);
  if (node.op == Op::kLoad) {
    node.operand = object.at("operand").get<int>();
    node.map = read_map(object.at("map"));
    return node;
  }
  node.inputs = object.at("inputs").get<std::vector<int>>();
  node.attributes = read_attributes(node.op, object);
  return node;
}

BlockGraph read_block(const json& object) {
  BlockGraph block;
  block.grid = object.at("grid").get<Dims>();
  block.steps = object.at("steps").get<std::int64_t>();
  const std::string threads = object.at("threads").get<std::string>();
  if (!threads.empty()) must(parse(threads, &block.threads));
  for (const json& node : object.at("block")) block.nodes.push_back(read_block_node(node));
  for (const json& item : object.at("stores")) {
    block.stores.push_back(
        {item.at("name").get<std::string>(), item.at("value").get<int>(), read_map(item.at("map")), read_spec(item)});
  }
  return block;
}

int find_tensor(const KernelGraph& graph, const json& value) {
  const std::string name = value.get<std::string>();
  const int tensor = graph.find(name);
  if (tensor < 0) must(text_error("no tensor " + quote(name) + " stands before: expected one that does"));
  return tensor;
}

void read_node(const json& object, KernelGraph* graph) {
  int tensor = -1;
  if (object.at("op") == "input") {
    must(graph->add_input(read_spec(object), &tensor, object.at("name").get<std::string>()));
    return;
  }
  const Op op = read_op(object);
  std::vector<int> inputs, results;
  for (const json& name : object.at("inputs")) inputs.push_back(find_tensor(*graph, name));
  if (op == Op::kCustom) {
    must(graph->add_custom(std::move(inputs), read_block(object), &results));
  } else {
    must(graph->add(op, std::move(inputs), read_attributes(op, object), &tensor, object.at("name").get<std::string>()));
  }
}

KernelGraph read_graph(const json& object) {
  KernelGraph graph;
  if (object.at("version") != 1)
    must(text_error("graph version " + quote(object.at("version").dump()) + ": expected 1"));
  for (const json& node : object.at("nodes")) read_node(node, &graph);
  for (const json& name : object.at("outputs")) must(graph.mark_output(find_tensor(graph, name)));
  return graph;
}

}  // namespace

std::string to_json(const KernelGraph& graph) {
  ordered_json nodes = ordered_json::array(), outputs = ordered_json::array();
  int written = -1;  // the last node; one that makes several tensors is written once
  for (const KernelTensor& tensor : graph.tensors()) {
    if (tensor.node < 0) {
      ordered_json input = {{"op", "input"}};
      input.update(spec_json(tensor.name, tensor.spec));
      nodes.push_back(std::move(input));
    } else if (tensor.node > written) {
      nodes.push_back(node_json(graph, graph.nodes()[static_cast<std::size_t>(written = tensor.node)]));
    }
  }
  for (const int output : graph.marked_outputs()) outputs.push_back(graph.tensor(output).name);
  return ordered_json({{"version", 1}, {"nodes", nodes}, {"outputs", outputs}}).dump(1);
}

Status parse_json(std::string_view text, KernelGraph* graph) {
  try {
    *graph = read_graph(json::parse(text));
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const json::exception& error) {
    return text_error(std::string("graph JSON: ") + error.what() + ": expected the form that to_json writes");
  }
  return {};
}

}  // namespace gqa

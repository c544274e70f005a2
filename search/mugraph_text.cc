// mugraph_text.cc: the text form of a µGraph.
// Owns: to_text and parse of mugraph.h, inverse to each other.
// Never: decides whether a graph computes attention; only that its names, ops and numbers are well formed.
// Threads: pure functions.
#include <algorithm>
#include <limits>
#include <optional>

#include "search/mugraph.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::string_view kHeader = "mugraph 1";
constexpr std::string_view kLoopMark = "in loop: ";
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr int kMostDimension = 3;

struct MapKey {
  std::string_view key;
  int DimMap::*value;
};
constexpr MapKey kMapKeys[] = {{"tile", &DimMap::tile},
                               {"head", &DimMap::head},
                               {"batch", &DimMap::batch},
                               {"split", &DimMap::split},
                               {"loop", &DimMap::loop}};

struct CountKey {
  std::string_view key;
  std::int64_t MuGraph::*value;
};
constexpr CountKey kGridKeys[] = {{"tiles", &MuGraph::grid_tiles},
                                  {"heads", &MuGraph::grid_heads},
                                  {"batch", &MuGraph::grid_batch},
                                  {"splits", &MuGraph::grid_splits}};
constexpr CountKey kLoopKeys[] = {{"steps", &MuGraph::loop_steps}};

template <std::size_t N>
std::string counts_text(const MuGraph& graph, const CountKey (&keys)[N]) {
  std::string text;
  for (const CountKey& count : keys) text += " " + std::string(count.key) + "=" + std::to_string(graph.*count.value);
  return text;
}

// "k = input() [head=2 batch=0 loop=1]"
std::string node_text(const Node& node) {
  std::string text = node.in_loop ? std::string(kLoopMark) : "";
  text += node.name + " = " + node.op + "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i == 0 ? "" : ", ") + node.inputs[i];
  text += ")";
  std::string map;
  for (const MapKey& dim : kMapKeys) {
    if (node.map.*dim.value < 0) continue;
    map += (map.empty() ? "" : " ") + std::string(dim.key) + "=" + std::to_string(node.map.*dim.value);
  }
  return map.empty() ? text : text + " [" + map + "]";
}

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9'); };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') && std::all_of(text.begin(), text.end(), letter);
}

bool take(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// "tiles=4 heads=8", exactly these keys in this order.
template <std::size_t N>
Status parse_counts(std::string_view text, const CountKey (&keys)[N], MuGraph* graph) {
  const std::vector<std::string_view> words = split_text(text, ' ');
  for (std::size_t i = 0; i < N; ++i) {
    std::string_view word = i < words.size() ? words[i] : std::string_view();
    const std::string prefix = std::string(keys[i].key) + "=";
    if (!take(&word, prefix)) return text_error("found " + quote(word) + ", expected " + prefix + "NUMBER");
    if (Status status = parse_number(keys[i].key, word, 1, kMost64, &(graph->*keys[i].value)); !status.ok()) {
      return status;
    }
  }
  if (words.size() > N) return text_error("found " + quote(words[N]) + ", expected the end of the line");
  return {};
}

Status parse_map(std::string_view text, DimMap* map) {
  std::size_t from = 0;  // keys come in the order of kMapKeys, each at most once
  for (const std::string_view word : split_text(text, ' ')) {
    const auto equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const auto found = std::find_if(std::begin(kMapKeys) + from, std::end(kMapKeys),
                                    [&](const MapKey& known) { return known.key == key; });
    if (found == std::end(kMapKeys) || equals == std::string_view::npos) {
      return text_error("found " + quote(word) +
                        " in a map, expected tile=, head=, batch=, split=, loop= in this order");
    }
    std::int64_t dimension = 0;
    if (Status status = parse_number(key, word.substr(equals + 1), 0, kMostDimension, &dimension); !status.ok()) {
      return status;
    }
    map->*found->value = static_cast<int>(dimension);
    from = static_cast<std::size_t>(found - std::begin(kMapKeys)) + 1;
  }
  return {};
}

const Node* find_node(const std::vector<Node>& nodes, std::string_view name) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.name == name; });
  return found == nodes.end() ? nullptr : &*found;
}

Status parse_inputs(std::string_view text, const std::vector<Node>& earlier, std::vector<std::string>* inputs) {
  if (text.empty()) return {};
  for (std::string_view name : split_text(text, ',')) {
    if (!inputs->empty() && !take(&name, " ")) return text_error("found ',' without a space after it, expected ', '");
    if (find_node(earlier, name) == nullptr) return text_error("input " + quote(name) + " is not an earlier node");
    inputs->emplace_back(name);
  }
  return {};
}

Status check_node(const Node& node, const std::vector<Node>& earlier) {
  if (!is_name(node.name)) return text_error(quote(node.name) + " is no name: expected a-z, 0-9 and _, no digit first");
  if (find_node(earlier, node.name) != nullptr) return text_error("node " + quote(node.name) + " is defined twice");
  const auto& ops = known_ops();
  if (std::find(ops.begin(), ops.end(), node.op) == ops.end()) {
    std::string known;
    for (const std::string_view op : ops) known += (known.empty() ? "" : ", ") + std::string(op);
    return text_error("unknown op " + quote(node.op) + ": expected one of " + known);
  }
  return {};
}

Status parse_node(std::string_view line, std::vector<Node>* nodes) {
  Node node;
  std::string_view rest = line;
  node.in_loop = take(&rest, kLoopMark);
  const auto equals = rest.find(" = "), open = rest.find('('), close = rest.find(')');
  if (equals == std::string_view::npos || open == std::string_view::npos || close == std::string_view::npos ||
      open < equals + 3 || close < open) {
    return text_error("found " + quote(line) + ", expected NAME = OP(INPUTS) [MAP]");
  }
  node.name = rest.substr(0, equals);
  node.op = rest.substr(equals + 3, open - equals - 3);
  if (Status status = check_node(node, *nodes); !status.ok()) return status;
  const std::string_view inputs = rest.substr(open + 1, close - open - 1);
  if (Status status = parse_inputs(inputs, *nodes, &node.inputs); !status.ok()) return status;
  rest.remove_prefix(close + 1);
  if (!rest.empty()) {
    if (!take(&rest, " [") || rest.empty() || rest.back() != ']') {
      return text_error("found " + quote(rest) + " after the inputs, expected [MAP]");
    }
    rest.remove_suffix(1);
    if (Status status = parse_map(rest, &node.map); !status.ok()) return status;
  }
  nodes->push_back(std::move(node));
  return {};
}

Status parse_head(int item, std::string_view line, MuGraph* graph) {
  switch (item) {
    case 0:
      if (line == kHeader) return {};
      return text_error("found " + quote(line) + ", expected " + quote(kHeader));
    case 1:
      if (take(&line, "problem ")) return parse(line, &graph->problem);
      return text_error("found " + quote(line) + ", expected 'problem ' and its text");
    case 2:
      if (take(&line, "candidate ")) return parse(line, &graph->candidate);
      return text_error("found " + quote(line) + ", expected 'candidate ' and its text");
    case 3:
      if (take(&line, "grid ")) return parse_counts(line, kGridKeys, graph);
      return text_error("found " + quote(line) + ", expected 'grid ' and its counts");
    default:
      if (take(&line, "loop ")) return parse_counts(line, kLoopKeys, graph);
      return text_error("found " + quote(line) + ", expected 'loop steps=NUMBER'");
  }
}

constexpr int kHeadLines = 5;

}  // namespace

std::string to_text(const MuGraph& graph) {
  std::string text = std::string(kHeader) + "\nproblem " + to_text(graph.problem) + "\ncandidate " +
                     to_text(graph.candidate) + "\ngrid" + counts_text(graph, kGridKeys) + "\nloop" +
                     counts_text(graph, kLoopKeys) + "\n";
  for (const Node& node : graph.block) text += node_text(node) + "\n";
  return text;
}

Status parse(std::string_view text, MuGraph* graph) {
  MuGraph read;
  int line_number = 0, item = 0;
  for (const std::string_view line : split_text(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    const Status status = item < kHeadLines ? parse_head(item, line, &read) : parse_node(line, &read.block);
    if (!status.ok()) return text_error("line " + std::to_string(line_number) + ": " + status.message());
    ++item;
  }
  if (item < kHeadLines) {
    return text_error("the text ends after " + std::to_string(item) +
                      " lines, expected 'mugraph 1', problem, candidate, grid and loop before the nodes");
  }
  if (read.block.empty()) return text_error("the graph has no node, expected at least one");
  *graph = std::move(read);
  return {};
}

}  // namespace gqa

// graph_text.cc: see graph_text.h: writing, then reading.
#include "search/graph/ir/graph_text.h"

#include <map>
#include <optional>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::string_view kHeader = "graph 1";

// ---- writing

std::string spec_text(const TensorSpec& spec) {
  return std::string(name(spec.type)) + to_text(spec.dims) +
         (spec.strides.empty() ? "" : " strides=" + to_text(spec.strides));
}

std::string slice_text(const Slice& slice) {
  return slice.dim < 0 ? "-" : std::to_string(slice.dim) + "/" + std::to_string(slice.tile);
}

std::string map_text(const TileMap& map) {
  std::string text = " grid=[";
  for (std::size_t at = 0; at < map.grid.size(); ++at) text += (at ? "," : "") + slice_text(map.grid[at]);
  return text + "]" + (map.loop.dim < 0 ? "" : " loop=" + slice_text(map.loop));
}

template <typename NameOf>
std::string call_text(Op op, const std::vector<int>& inputs, NameOf name_of) {
  std::string text = std::string(name(op)) + "(";
  for (std::size_t at = 0; at < inputs.size(); ++at) text += (at ? ", " : "") + name_of(inputs[at]);
  return text + ")";
}

std::string block_node_text(const BlockGraph& block, const BlockNode& node) {
  if (node.op == Op::kLoad) return node.name + " = load(" + std::to_string(node.operand) + ")" + map_text(node.map);
  return node.name + " = " +
         call_text(node.op, node.inputs, [&](int at) { return block.nodes[static_cast<std::size_t>(at)].name; }) +
         to_text(node.attributes);
}

std::string block_text(const BlockGraph& block) {
  std::string text = " grid=" + to_text(block.grid) + " steps=" + std::to_string(block.steps);
  if (!block.threads.family.empty()) text += " threads=" + to_text(block.threads);
  text += "\n";
  std::optional<Phase> phase;
  for (const BlockNode& node : block.nodes) {
    if (phase != node.phase) text += "  " + std::string(name(node.phase)) + ":\n";
    phase = node.phase;
    text += "  " + block_node_text(block, node) + "\n";
  }
  for (const BlockStore& store : block.stores) {
    text += "  store(" + block.nodes[static_cast<std::size_t>(store.value)].name + ") -> " + store.name + " " +
            spec_text(store.result) + map_text(store.map) + "\n";
  }
  return text + "end";
}

std::string node_text(const KernelGraph& graph, const KernelNode& node) {
  const std::string call = call_text(node.op, node.inputs, [&](int id) { return graph.tensor(id).name; });
  if (node.block) return call + block_text(*node.block);
  return graph.tensor(node.outputs[0]).name + " = " + call + to_text(node.attributes);
}

// ---- reading

Status parse_spec(std::string_view text, TensorSpec* spec) {
  const auto bracket = text.find('[');
  if (bracket == std::string_view::npos) return text_error("tensor " + quote(text) + ": expected as in f16[2,256,64]");
  if (Status status = parse(text.substr(0, bracket), &spec->type); !status.ok()) return status;
  return parse(text.substr(bracket), &spec->dims);
}

Status parse_slice(std::string_view text, Slice* slice) {
  if (text == "-") return {};
  const auto bar = text.find('/');
  if (bar == std::string_view::npos) return text_error("slice " + quote(text) + ": expected DIM/TILE or -");
  Status status = parse_number("dimension", text.substr(0, bar), 0, kMostDims, &slice->dim);
  return status.ok() ? parse_number("tile", text.substr(bar + 1), 1, kMostElements, &slice->tile) : status;
}

Status parse_grid_map(std::string_view text, std::vector<Slice>* slices) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    return text_error("map " + quote(text) + ": expected as in [1/64,-]");
  const std::string_view inside = text.substr(1, text.size() - 2);
  for (const std::string_view part : inside.empty() ? std::vector<std::string_view>{} : split_text(inside, ',')) {
    if (Status status = parse_slice(part, &slices->emplace_back()); !status.ok()) return status;
  }
  return {};
}

// The words after a tensor or a load: grid=, loop=, strides=.
Status parse_layout(const std::vector<std::string_view>& words, std::size_t from, TileMap* map, Dims* strides) {
  for (std::size_t at = from; at < words.size(); ++at) {
    const auto equals = words[at].find('=');
    const std::string_view key = words[at].substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : words[at].substr(equals + 1);
    Status status;
    if (key == "grid" && map) {
      status = parse_grid_map(value, &map->grid);
    } else if (key == "loop" && map) {
      status = parse_slice(value, &map->loop);
    } else if (key == "strides" && strides) {
      status = parse(value, strides);
    } else {
      return text_error(
          "found " + quote(words[at]) + ": expected " +
          (map ? std::string("grid=[...], loop=DIM/TILE") + (strides ? " or strides=[...]" : "") : "strides=[...]"));
    }
    if (!status.ok()) return status;
  }
  return {};
}

struct CallText {
  std::string_view op;
  std::vector<std::string_view> arguments, rest;
};

Status split_call(std::string_view text, CallText* call) {
  const auto open = text.find('('), close = text.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return text_error("found " + quote(text) + ": expected OPERATOR(OPERAND, ...) key=value ...");
  call->op = text.substr(0, open);
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  if (!trim(inside).empty()) {
    for (const std::string_view part : split_text(inside, ',')) call->arguments.push_back(trim(part));
  }
  for (const std::string_view word : split_text(text.substr(close + 1), ' ')) {
    if (!word.empty()) call->rest.push_back(word);
  }
  return {};
}

Status parse_op(const CallText& call, Level level, const OpInfo** row, Attributes* attributes) {
  *row = find_op(call.op);
  if (!*row) return text_error("unknown operator " + quote(call.op) + ": expected " + op_names(level));
  for (const std::string_view item : call.rest) {
    if (Status status = parse_attribute((*row)->op, item, attributes); !status.ok()) return status;
  }
  return {};
}

class Reader {
 public:
  Status read(std::string_view text, KernelGraph* graph) {
    for (const std::string_view line : split_text(text, '\n')) {
      ++number_;
      if (trim(line).empty()) continue;
      if (Status status = read_line(trim(line)); !status.ok())
        return Status(status.code(), "line " + std::to_string(number_) + ": " + status.message());
    }
    if (!started_) return text_error("an empty text: expected " + quote(kHeader));
    if (block_) return text_error("the text stops inside a custom operator: expected 'end'");
    *graph = std::move(graph_);
    return {};
  }

 private:
  Status read_line(std::string_view line) {
    if (!started_) {
      started_ = line == kHeader;
      return started_ ? Status() : text_error("found " + quote(line) + ": expected " + quote(kHeader));
    }
    if (block_) return read_block_line(line);
    if (line.rfind("custom(", 0) == 0) return begin_block(line);
    if (line.rfind("outputs ", 0) == 0) return read_outputs(line.substr(8));
    const auto equals = line.find(" = ");
    if (equals == std::string_view::npos)
      return text_error("found " + quote(line) + ": expected NAME = ..., custom(...) or outputs ...");
    const std::string_view name = trim(line.substr(0, equals)), rest = trim(line.substr(equals + 3));
    return rest.rfind("input ", 0) == 0 ? read_input(name, rest.substr(6)) : read_node(name, rest);
  }

  Status find(std::string_view name, int* tensor) const {
    *tensor = graph_.find(name);
    return *tensor >= 0 ? Status() : text_error("no tensor " + quote(name) + " stands before: expected one that does");
  }

  Status find_all(const std::vector<std::string_view>& names, std::vector<int>* tensors) const {
    for (const std::string_view name : names) {
      if (Status status = find(name, &tensors->emplace_back()); !status.ok()) return status;
    }
    return {};
  }

  Status read_input(std::string_view name, std::string_view text) {
    const std::vector<std::string_view> words = split_text(text, ' ');
    TensorSpec spec;
    if (Status status = parse_spec(words[0], &spec); !status.ok()) return status;
    if (Status status = parse_layout(words, 1, nullptr, &spec.strides); !status.ok()) return status;
    int tensor = -1;
    return graph_.add_input(std::move(spec), &tensor, std::string(name));
  }

  Status read_node(std::string_view name, std::string_view text) {
    CallText call;
    if (Status status = split_call(text, &call); !status.ok()) return status;
    const OpInfo* row = nullptr;
    Attributes attributes;
    if (Status status = parse_op(call, Level::kKernel, &row, &attributes); !status.ok()) return status;
    std::vector<int> inputs;
    if (Status status = find_all(call.arguments, &inputs); !status.ok()) return status;
    int tensor = -1;
    return graph_.add(row->op, std::move(inputs), std::move(attributes), &tensor, std::string(name));
  }

  Status read_outputs(std::string_view text) {
    for (const std::string_view name : split_text(text, ',')) {
      int tensor = -1;
      if (Status status = find(trim(name), &tensor); !status.ok()) return status;
      if (Status status = graph_.mark_output(tensor); !status.ok()) return status;
    }
    return {};
  }

  Status begin_block(std::string_view line) {
    const auto threads = line.find(" threads=");
    ThreadPlan plan;
    if (threads != std::string_view::npos) {
      if (Status status = parse(line.substr(threads + 9), &plan); !status.ok()) return status;
    }
    CallText call;
    if (Status status = split_call(line.substr(0, threads), &call); !status.ok()) return status;
    operands_.clear();
    if (Status status = find_all(call.arguments, &operands_); !status.ok()) return status;
    Dims grid;
    std::int64_t steps = 0;
    if (Status status = read_extents(call.rest, &grid, &steps); !status.ok()) return status;
    std::vector<TensorSpec> specs;
    for (const int operand : operands_) specs.push_back(graph_.spec(operand));
    block_.emplace(std::move(specs), std::move(grid), steps);
    block_->threads(std::move(plan));
    names_.clear();
    return {};
  }

  static Status read_extents(const std::vector<std::string_view>& words, Dims* grid, std::int64_t* steps) {
    if (words.size() != 2 || words[0].rfind("grid=", 0) != 0 || words[1].rfind("steps=", 0) != 0)
      return text_error("a custom operator: expected custom(OPERAND, ...) grid=[...] steps=NUMBER");
    Status status = parse(words[0].substr(5), grid);
    return status.ok() ? parse_number("steps", words[1].substr(6), 1, kMostElements, steps) : status;
  }

  Status read_block_line(std::string_view line) {
    if (line == "end") return end_block();
    if (line == "before:") return {};
    if (line == "loop:") return block_->loop(), Status();
    if (line == "after:") return block_->after(), Status();
    if (line.rfind("store(", 0) == 0) return read_store(line);
    const auto equals = line.find(" = ");
    if (equals == std::string_view::npos)
      return text_error("found " + quote(line) + ": expected NAME = ..., store(...), a phase or end");
    const std::string name(trim(line.substr(0, equals)));
    CallText call;
    if (Status status = split_call(trim(line.substr(equals + 3)), &call); !status.ok()) return status;
    int node = -1;
    Status status = call.op == "load" ? read_load(name, call, &node) : read_block_node(name, call, &node);
    names_[name] = node;
    return status;
  }

  Status find_node(std::string_view name, int* node) const {
    const auto found = names_.find(name);
    if (found == names_.end())
      return text_error("no block node " + quote(name) + " stands before: expected one that does");
    *node = found->second;
    return {};
  }

  Status read_load(const std::string& name, const CallText& call, int* node) {
    std::int64_t operand = 0;
    TileMap map;
    Status status = parse_number("operand", call.arguments.size() == 1 ? call.arguments[0] : "", 0,
                                 static_cast<std::int64_t>(operands_.size()) - 1, &operand);
    if (status.ok()) status = parse_layout(call.rest, 0, &map, nullptr);
    if (status.ok()) *node = block_->load(static_cast<int>(operand), std::move(map), name);
    return status.ok() ? block_->status() : status;
  }

  Status read_block_node(const std::string& name, const CallText& call, int* node) {
    const OpInfo* row = nullptr;
    Attributes attributes;
    if (Status status = parse_op(call, Level::kBlock, &row, &attributes); !status.ok()) return status;
    std::vector<int> inputs;
    for (const std::string_view argument : call.arguments) {
      if (Status status = find_node(argument, &inputs.emplace_back()); !status.ok()) return status;
    }
    *node = block_->add(row->op, std::move(inputs), std::move(attributes), name);
    return block_->status();
  }

  Status read_store(std::string_view line) {
    CallText call;
    if (Status status = split_call(line, &call); !status.ok()) return status;
    if (call.arguments.size() != 1 || call.rest.size() < 3 || call.rest[0] != "->")
      return text_error("found " + quote(line) + ": expected store(NODE) -> NAME TYPE[SIZES] grid=[...]");
    int node = -1;
    TensorSpec spec;
    TileMap map;
    Status status = find_node(call.arguments[0], &node);
    if (status.ok()) status = parse_spec(call.rest[2], &spec);
    if (status.ok()) status = parse_layout(call.rest, 3, &map, &spec.strides);
    if (status.ok()) block_->store(node, std::move(map), std::move(spec), std::string(call.rest[1]));
    return status;
  }

  Status end_block() {
    BlockGraph block;
    std::vector<int> results;
    Status status = block_->finish(&block);
    if (status.ok()) status = graph_.add_custom(operands_, std::move(block), &results);
    block_.reset();
    return status;
  }

  KernelGraph graph_;
  std::optional<BlockBuilder> block_;  // of the custom operator being read
  std::vector<int> operands_;
  std::map<std::string, int, std::less<>> names_;  // of its nodes
  int number_ = 0;
  bool started_ = false;
};

}  // namespace

std::string to_text(const KernelGraph& graph) {
  std::string text = std::string(kHeader) + "\n";
  int written = -1;  // the last node; one that makes several tensors is written once
  for (const KernelTensor& tensor : graph.tensors()) {
    if (tensor.node < 0) {
      text += tensor.name + " = input " + spec_text(tensor.spec) + "\n";
    } else if (tensor.node > written) {
      text += node_text(graph, graph.nodes()[static_cast<std::size_t>(written = tensor.node)]) + "\n";
    }
  }
  for (std::size_t at = 0; at < graph.marked_outputs().size(); ++at)
    text += (at ? ", " : "outputs ") + graph.tensor(graph.marked_outputs()[at]).name;
  return text + (graph.marked_outputs().empty() ? "" : "\n");
}

Status parse(std::string_view text, KernelGraph* graph) { return Reader().read(text, graph); }

}  // namespace gqa

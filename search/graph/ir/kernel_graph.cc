// kernel_graph.cc: see kernel_graph.h.
#include "search/graph/ir/kernel_graph.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "search/graph/ir/shape.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::size_t kMostTensors = 1 << 14;

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 64 || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

Status check_names(const BlockGraph& block) {
  for (const BlockNode& node : block.nodes) {
    if (!is_name(node.name))
      return text_error("block node name " + quote(node.name) + ": expected a letter or _, then letters, digits or _");
  }
  return {};
}

}  // namespace

bool operator==(const KernelNode& a, const KernelNode& b) {
  const bool same_block = a.block == b.block || (a.block && b.block && *a.block == *b.block);
  return same_block && a.op == b.op && a.attributes == b.attributes && a.inputs == b.inputs && a.outputs == b.outputs;
}

Status KernelGraph::check_name(const std::string& name) const {
  if (!is_name(name)) {
    return text_error("tensor name " + quote(name) + ": expected a letter or _, then letters, digits or _, 64 at most");
  }
  if (find(name) >= 0) return text_error("tensor name " + quote(name) + " is taken: expected each once");
  return {};
}

Status KernelGraph::take_name(std::string* name) const {
  if (name->empty()) {
    std::size_t number = tensors_.size();
    do {
      *name = "t" + std::to_string(number++);
    } while (find(*name) >= 0);
  }
  if (Status status = check_name(*name); !status.ok()) return status;
  if (tensors_.size() >= kMostTensors)
    return Status(Code::kSize, "more than " + std::to_string(kMostTensors) + " tensors: expected a smaller graph");
  return {};
}

Status KernelGraph::check_inputs(const std::vector<int>& inputs) const {
  for (const int input : inputs) {
    if (input < 0 || input >= static_cast<int>(tensors_.size()))
      return Status(Code::kOption, "tensor " + std::to_string(input) + " is not of this graph: expected 0 to " +
                                       std::to_string(static_cast<int>(tensors_.size()) - 1));
  }
  return {};
}

int KernelGraph::push(KernelTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<int>(tensors_.size()) - 1;
}

Status KernelGraph::add_input(TensorSpec spec, int* tensor, std::string name) {
  if (Status status = check(&spec); !status.ok()) return status;
  if (Status status = take_name(&name); !status.ok()) return status;
  inputs_.push_back(*tensor = push({std::move(name), std::move(spec), -1}));
  return {};
}

Status KernelGraph::add(Op op, std::vector<int> inputs, Attributes attributes, int* tensor, std::string name) {
  const OpInfo& row = info(op);
  if (row.level == Level::kBlock || op == Op::kCustom)
    return text_error(std::string(row.name) + " cannot stand alone in a kernel graph: expected " +
                      op_names(Level::kKernel));
  if (Status status = check_inputs(inputs); !status.ok()) return status;
  std::vector<Axes> shapes;
  std::vector<ElementType> types;
  for (const int input : inputs) {
    shapes.push_back(whole_axes(spec(input).dims));
    types.push_back(spec(input).type);
  }
  Axes axes;
  TensorSpec result = {{}, attributes.type};
  Status status = infer_shape(op, shapes, &attributes, &axes);
  if (status.ok()) status = common_type(types, &result.type);
  if (!status.ok()) return status;
  result.dims = tile_dims(axes);
  if (status = check(&result); !status.ok()) return status;
  if (status = take_name(&name); !status.ok()) return status;
  *tensor = push({std::move(name), std::move(result), static_cast<int>(nodes_.size())});
  nodes_.push_back({op, std::move(attributes), std::move(inputs), {*tensor}, nullptr});
  return {};
}

Status KernelGraph::add_custom(std::vector<int> inputs, BlockGraph block, std::vector<int>* tensors) {
  if (Status status = check_inputs(inputs); !status.ok()) return status;
  std::vector<TensorSpec> operands;
  for (const int input : inputs) operands.push_back(spec(input));
  if (Status status = check(operands, &block); !status.ok()) return status;
  if (Status status = check_names(block); !status.ok()) return status;
  KernelGraph grown = *this;  // names are taken one after another; an error leaves *this as it was
  KernelNode node = {Op::kCustom, {}, std::move(inputs), {}, nullptr};
  for (BlockStore& store : block.stores) {
    if (Status status = grown.take_name(&store.name); !status.ok()) return status;
    node.outputs.push_back(grown.push({store.name, store.result, static_cast<int>(nodes_.size())}));
  }
  *tensors = node.outputs;
  node.block = std::make_shared<const BlockGraph>(std::move(block));
  grown.nodes_.push_back(std::move(node));
  *this = std::move(grown);
  return {};
}

Status KernelGraph::mark_output(int tensor) {
  if (Status status = check_inputs({tensor}); !status.ok()) return status;
  if (tensors_[static_cast<std::size_t>(tensor)].node < 0)
    return Status(Code::kOption, "input " + quote(this->tensor(tensor).name) + " as output: expected a result");
  if (std::find(marked_.begin(), marked_.end(), tensor) != marked_.end())
    return Status(Code::kOption, quote(this->tensor(tensor).name) + " is an output twice: expected once");
  marked_.push_back(tensor);
  return {};
}

Status KernelGraph::rename(int tensor, std::string name) {
  if (Status status = check_inputs({tensor}); !status.ok()) return status;
  std::string& current = tensors_[static_cast<std::size_t>(tensor)].name;
  if (current == name) return {};
  if (Status status = check_name(name); !status.ok()) return status;
  current = std::move(name);
  return {};
}

std::vector<int> KernelGraph::outputs() const {
  if (!marked_.empty()) return marked_;
  std::set<int> read;
  for (const KernelNode& node : nodes_) read.insert(node.inputs.begin(), node.inputs.end());
  std::vector<int> unread;
  for (const KernelNode& node : nodes_) {
    for (const int output : node.outputs) {
      if (!read.count(output)) unread.push_back(output);
    }
  }
  return unread;
}

int KernelGraph::find(std::string_view name) const {
  for (std::size_t at = 0; at < tensors_.size(); ++at) {
    if (tensors_[at].name == name) return static_cast<int>(at);
  }
  return -1;
}

const KernelNode* KernelGraph::maker(int id) const {
  const int node = tensor(id).node;
  return node < 0 ? nullptr : &nodes_[static_cast<std::size_t>(node)];
}

std::string to_text(const TensorSpec& spec) { return to_text(spec.dims) + " of " + std::string(name(spec.type)); }

int KernelBuilder::keep(const Status& status, int tensor) {
  if (status_.ok()) status_ = status;
  return status_.ok() ? tensor : -1;
}

int KernelBuilder::input(TensorSpec spec, std::string name) {
  int tensor = -1;
  const Status status = graph_.add_input(std::move(spec), &tensor, std::move(name));
  return keep(status, tensor);
}

int KernelBuilder::add(Op op, std::vector<int> inputs, Attributes attributes, std::string name) {
  int tensor = -1;
  const Status status = graph_.add(op, std::move(inputs), std::move(attributes), &tensor, std::move(name));
  return keep(status, tensor);
}

std::vector<int> KernelBuilder::custom(std::vector<int> inputs, const BlockBuilder& block) {
  BlockGraph made;
  BlockBuilder writer = block;
  std::vector<int> tensors;
  Status status = writer.finish(&made);
  if (status.ok()) status = graph_.add_custom(std::move(inputs), std::move(made), &tensors);
  keep(status, 0);
  tensors.resize(block.results(), -1);
  return tensors;
}

void KernelBuilder::output(int tensor) { keep(graph_.mark_output(tensor), tensor); }

std::vector<TensorSpec> KernelBuilder::specs(const std::vector<int>& tensors) const {
  std::vector<TensorSpec> found;
  for (const int tensor : tensors) found.push_back(tensor < 0 ? TensorSpec{{1}} : graph_.spec(tensor));
  return found;
}

Status KernelBuilder::finish(KernelGraph* graph) const {
  if (status_.ok()) *graph = graph_;
  return status_;
}

}  // namespace gqa

// kernel_graph.h: the kernel level of a µGraph: operators over device tensors.
// Owns: KernelGraph: inputs, operators, the results that are its outputs; built node after node, each checked as it is
// added, so that a graph is always well formed and a cycle cannot be said. A custom operator holds a block graph.
// Never: runs, rewrites or measures one.
// Threads: a value. Copies share their block graphs, which never change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "search/graph/ir/block_graph.h"
#include "search/graph/ir/op.h"
#include "search/graph/ir/tensor.h"
#include "search/status.h"

namespace gqa {

// What a value is in the graph that a user wrote.
enum class ValueOrigin : std::uint8_t {
  kGiven,      // one of its tensors has this value: evaluating operator by operator rounds it to its type too
  kOpened,     // a step of an operator with a name, which that operator takes in float32 itself
  kRewritten,  // none of these: a rule of algebra brought it in, and only rules say that the outputs are the same
};

struct KernelTensor {
  std::string name;  // unique in the graph: a letter or _, then letters, digits and _
  TensorSpec spec;
  int node = -1;                             // that makes it; -1: an input
  ValueOrigin origin = ValueOrigin::kGiven;  // no part of the text
  friend bool operator==(const KernelTensor& a, const KernelTensor& b) {
    return a.name == b.name && a.spec == b.spec && a.node == b.node;
  }
};

struct KernelNode {
  Op op = Op::kCustom;
  Attributes attributes;
  std::vector<int> inputs, outputs;         // tensors
  std::shared_ptr<const BlockGraph> block;  // of a custom operator
  friend bool operator==(const KernelNode& a, const KernelNode& b);
};

class KernelGraph {
 public:
  // Each gives the new tensor's number, and leaves the graph as it was on an error. An empty name is made up.
  Status add_input(TensorSpec spec, int* tensor, std::string name = "");
  Status add(Op op, std::vector<int> inputs, Attributes attributes, int* tensor, std::string name = "");
  // One tensor a store of the block graph, named as the store is.
  Status add_custom(std::vector<int> inputs, BlockGraph block, std::vector<int>* tensors);
  Status mark_output(int tensor);
  Status rename(int tensor, std::string name);
  void set_origin(int tensor, ValueOrigin origin) { tensors_[static_cast<std::size_t>(tensor)].origin = origin; }

  const std::vector<KernelTensor>& tensors() const { return tensors_; }
  const std::vector<KernelNode>& nodes() const { return nodes_; }  // in an order in which they can run
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& marked_outputs() const { return marked_; }
  std::vector<int> outputs() const;  // those marked, in that order; where none is, every result that no node reads
  const KernelTensor& tensor(int id) const { return tensors_[static_cast<std::size_t>(id)]; }
  const TensorSpec& spec(int id) const { return tensor(id).spec; }
  int find(std::string_view name) const;  // the tensor of that name; -1: none
  const KernelNode* maker(int id) const;  // null: an input

  friend bool operator==(const KernelGraph&, const KernelGraph&) = default;  // the same text

 private:
  Status check_inputs(const std::vector<int>& inputs) const;
  Status check_name(const std::string& name) const;
  Status take_name(std::string* name) const;
  int push(KernelTensor tensor);

  std::vector<KernelTensor> tensors_;
  std::vector<KernelNode> nodes_;
  std::vector<int> inputs_, marked_;
};

// "[2,256,64] of f16"
std::string to_text(const TensorSpec& spec);

// Writes a kernel graph without a check after each step. Remembers the first error; finish() reports it.
class KernelBuilder {
 public:
  int input(TensorSpec spec, std::string name = "");
  int add(Op op, std::vector<int> inputs, Attributes attributes = {}, std::string name = "");
  std::vector<int> custom(std::vector<int> inputs, const BlockBuilder& block);
  void output(int tensor);
  std::vector<TensorSpec> specs(const std::vector<int>& tensors) const;  // what a BlockBuilder of theirs is made with
  Status finish(KernelGraph* graph) const;

 private:
  int keep(const Status& status, int tensor);

  KernelGraph graph_;
  Status status_;
};

}  // namespace gqa

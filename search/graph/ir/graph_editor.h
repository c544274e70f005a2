// graph_editor.h: a kernel graph written anew with a part of it made otherwise.
// Owns: GraphEditor: copies what is still read, keeps one node of equal ones, and the readers' view of a graph
// (Readers).
// Never: knows a law; rules.cc does.
// Threads: one editor a thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

// Who reads each tensor: node numbers, once a use.
std::vector<std::vector<int>> readers(const KernelGraph& graph);

class GraphEditor {
 public:
  // origin: of what add() brings in.
  explicit GraphEditor(const KernelGraph& from, ValueOrigin origin = ValueOrigin::kGiven);

  // The tensor of `from` in the new graph, its makers copied as needed. -1: something before it failed.
  int keep(int tensor);
  std::vector<int> keep(const std::vector<int>& tensors);
  // A node of the new graph; an equal one that is there already stands for it. -1 where the operands do not fit.
  int add(Op op, const std::vector<int>& inputs, const Attributes& attributes = {}) {
    return add(op, inputs, attributes, "", origin_);
  }
  std::vector<int> add_custom(const std::vector<int>& inputs, const BlockGraph& block);
  // Whoever reads `tensor` of `from` reads `made` of the new graph, which has the same value.
  void replace(int tensor, int made);
  // What `tensor` of `from` becomes has another value than it has there.
  void alter(int tensor) { origins_[static_cast<std::size_t>(tensor)] = ValueOrigin::kRewritten; }
  const TensorSpec& spec(int made) const { return graph_.spec(made); }

  // With the outputs of `from`, marked; nothing where a step failed, or an output is no result any more.
  std::optional<KernelGraph> finish();

 private:
  bool mark_outputs();
  // Called `wanted` where that is free.
  int add(Op op, const std::vector<int>& inputs, const Attributes& attributes, const std::string& wanted,
          ValueOrigin origin);
  // Where several tensors of one value meet, the nearest to the user's graph says what it is.
  int settle(int made, ValueOrigin origin);

  const KernelGraph& from_;
  const ValueOrigin origin_;
  KernelGraph graph_;
  std::vector<int> made_;
  std::vector<ValueOrigin> origins_;  // of the tensors of from_
  std::map<std::string, int> known_;
  std::map<int, std::string> names_;  // of tensors of from_ that are to be called otherwise
};

}  // namespace gqa

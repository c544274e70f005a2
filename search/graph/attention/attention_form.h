// attention_form.h: a program's kernel seen as attention: what the fast families (search/families/candidate.h) can run.
// Owns: AttentionForm: the problem, where q, k, v and out lie in the operands, and the numbers of what stands between
// the first product and the softmax; attention_form(), which finds it in block graphs that the search made.
// Never: looks at a user's graph or adds to what the search found: it is instruction selection, after the proof.
// Threads: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/graph/ir/kernel_graph.h"
#include "search/problem/problem.h"

namespace gqa {

// One operator on each score alone, as a graph has it: scale, tanh, clamp, ...
struct ScoreStep {
  Op op = Op::kScale;
  Attributes attributes = {};
  friend bool operator==(const ScoreStep&, const ScoreStep&) = default;
};

// Where an operand of attention lies in a tensor: strides in elements of the batch, head, row (query or key) and column
// (head_dim) of each; 0 where there is no such dimension, or one element serves all of it. column is 1, but for keys
// that lie transposed (Problem::keys_transposed), whose row is 1.
struct AttentionView {
  int tensor = -1;  // of the graph: an input's or an output's tensor
  std::int64_t batch = 0, head = 0, row = 0, column = 1;
  friend bool operator==(const AttentionView&, const AttentionView&) = default;
};

struct AttentionForm {
  // Its align and tma follow from the strides, for tensors whose first elements are aligned to 16 bytes. Its chain is
  // the graph's steps without their constants, a soft cap's the same as a call's.
  Problem problem;
  float scale = 1;        // of the scores, before the chain, above 0: Call::scale
  ScoreSlots slots = {};  // the chain's: Call::slots
  AttentionView q, k, v, out;
  friend bool operator==(const AttentionForm&, const AttentionForm&) = default;
};

// The whole graph as one attention call: one flash kernel, or parts over keys and the kernel that merges them. Nothing
// where it is anything else, or what no family runs (a head dim, a stride, a window, more steps than a chain has).
std::optional<AttentionForm> attention_form(const KernelGraph& graph);

}  // namespace gqa

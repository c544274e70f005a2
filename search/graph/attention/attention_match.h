// attention_match.h: a program's kernels as attention, operator by operator.
// Owns: AttentionMatch: which tensors are q, k, v and out and through which views they are read, the operators on each
// score, and how rows are divided at the end; match_attention(), which finds it in block graphs.
// Never: asks what any family of kernels can run; attention_form.cc does.
// Threads: values and pure functions.
#pragma once

#include <optional>
#include <vector>

#include "search/graph/attention/attention_form.h"

namespace gqa {

// An input as a product reads it: through transpose, squeeze and unsqueeze, in order.
struct AttentionOperand {
  int tensor = -1;
  std::vector<ScoreStep> views;
  bool transposed = false;  // the product's own ta or tb
};

struct AttentionMatch {
  AttentionOperand q, k, v;
  std::vector<ScoreStep> scores;  // on q k^T in order, scalings of q and k first; a mask may be among them
  Op division = Op::kNormalize;   // or kDiv
  std::vector<ScoreStep> views;   // between the division and out
  int out = -1;
  bool split = false;  // parts over keys and the kernel that merges them
};

// The match of the whole graph: one custom operator, or two where the second merges.
std::optional<AttentionMatch> match_attention(const KernelGraph& graph);

}  // namespace gqa

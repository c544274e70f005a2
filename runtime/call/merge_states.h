// merge_states.h: attention's results on disjoint keys, to be merged into one.
// Owns: AttentionState and MergeCall, plain data filled on the hot path.
// Never: checks tensors; merge_args.h does.
// Threads: values.
#pragma once

#include <cstdint>

#include "runtime/call/strides.h"
#include "search/graph/ir/tensor.h"

namespace gqa {

// Attention on some of the keys: what it gives, and the log-sum-exp of its scores, -inf where it saw no key. In lse,
// lse_strides.row steps from query to query.
struct AttentionState {
  void* out = nullptr;
  float* lse = nullptr;
  Strides out_strides, lse_strides;
};

struct MergeCall {
  const AttentionState* parts = nullptr;                       // of the caller's
  int count = 0;                                               // at least 1
  AttentionState merged;                                       // may be the first part, overlaps no other
  ElementType type = ElementType::kF16;                        // of every out
  std::int32_t batch = 0, q_len = 0, heads = 0, head_dim = 0;  // batch * q_len * heads fits 31 bits
  bool vectors = false;                                        // every row of out is 16-byte aligned
  void* stream = nullptr;                                      // CUstream; the host ignores it

  std::int64_t rows() const { return std::int64_t{batch} * q_len * heads; }
};

}  // namespace gqa

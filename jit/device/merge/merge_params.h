// merge_params.h: the argument of the kernel that merges states, laid out the same by the host compiler and by NVRTC.
// Owns: MergeParams: where the parts lie, where their merger goes, and how rows are shared out.
// Never: holds more parts than a launch's argument has room for; further ones are launches of their own.
// Threads: plain data, read-only on the device.
#pragma once

#include "attention/common/params.h"

namespace gqa {

constexpr int kMergeParts = 32;  // of one launch
constexpr int kMergeChunk = 8;   // elements that a lane merges at a time
constexpr int kMergeThreads = 128;

// Where attention's results on some keys lie. lse_strides.row and .head step from query to query and from head to head.
struct MergePart {
  void* out;
  float* lse;
  TensorStrides out_strides, lse_strides;
};

struct MergeParams {
  MergePart parts[kMergeParts];
  MergePart merged;   // may be one of the parts
  unsigned int rows;  // batch * q_len * heads, heads innermost
  int count, q_len, heads, head_dim;
  int lanes;    // of a warp, a row: a power of two
  int type;     // an ElementType
  int vectors;  // rows are 16-byte aligned and a whole number of chunks
};

static_assert(sizeof(MergePart) == 64 && sizeof(MergeParams) == 33 * 64 + 32,
              "host and device must agree on MergeParams");

}  // namespace gqa

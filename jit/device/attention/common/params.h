// params.h: what a launch hands to a kernel, laid out the same by the host compiler and by NVRTC.
// Owns: AttentionParams, the only argument of every attention kernel: pointers, strides in elements, lengths.
// Never: holds anything that shapes code; that is the generated Config.
// Threads: plain data, read-only on the device.
#pragma once

#include "attention/common/divisor.h"

namespace gqa {

// Elements from one to the next. Where k lies transposed, row steps along head_dim.
struct TensorStrides {
  long long batch, row, head;
};

struct AttentionParams {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;              // may be null
  float* partials;         // split: blocks x tile_m x (head_dim_v + 2)
  unsigned int* counters;  // split: one a row tile, zero before and after
  TensorStrides q_strides, k_strides, v_strides, out_strides, lse_strides;
  int q_heads, kv_heads, batch, q_len, kv_len;
  int splits;
  int tiles;         // row tiles * head groups * batch
  int row_tiles;     // ceil(q_len * pack / tile_m)
  int head_groups;   // q_heads / pack
  int head_swizzle;  // head groups (of any batch) that are walked together; divides head_groups * batch
  float scale_log2;  // scale * log2(e): softmax runs on exp2
  int rows_before;   // warpgroup: rows of each head's first tile, whole warpgroups', that do not exist
  Divisor by_splits, by_row_tiles, by_swizzle_tiles, by_swizzle, by_head_groups, by_group;
};

static_assert(sizeof(AttentionParams) == 272, "host and device must agree on AttentionParams");

}  // namespace gqa

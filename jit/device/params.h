// params.h: what a launch hands to a kernel, laid out the same by the host compiler and by NVRTC.
// Owns: AttentionParams, the only argument of every attention kernel: pointers, strides in elements, lengths.
// Never: holds anything that shapes code; that is the generated Config.
// Threads: plain data, read-only on the device.
#pragma once

namespace gqa {

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
  int splits, order;
  int row_tiles;     // ceil(q_len * pack / tile_m)
  int head_groups;   // q_heads / pack
  float scale_log2;  // scale * log2(e): softmax runs on exp2
};

static_assert(sizeof(AttentionParams) == 216, "host and device must agree on AttentionParams");

}  // namespace gqa

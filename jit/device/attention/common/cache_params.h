// cache_params.h: what a launch says of a KV cache: whose sequences have lengths of their own, whose keys lie in pages,
// or of which a window is seen. Laid out the same by the host compiler and by NVRTC.
// Owns: CacheParams, the argument after AttentionParams of the kernels that need one of these.
// Never: is given to a kernel of dense keys, one length and no window.
// Threads: plain data, read-only on the device.
#pragma once

namespace gqa {

struct CacheParams {
  const int* lengths;             // keys of each sequence, at most kv_len count; null where all have kv_len
  const int* pages;               // the table: which page holds a sequence's keys; null where there are none
  long long table_stride;         // entries from a sequence's row to the next
  int page_count;                 // pages that exist
  int window_left, window_right;  // keys before and after the query's own; at most kv_len; -1: all of them
};

static_assert(sizeof(CacheParams) == 40, "host and device must agree on CacheParams");

}  // namespace gqa

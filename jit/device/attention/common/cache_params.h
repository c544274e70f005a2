// cache_params.h: what a launch says of sequences and their keys: that they have lengths of their own, are packed, lie
// in pages, or that a window of them is seen. Laid out the same by the host compiler and by NVRTC. Owns: CacheParams,
// the argument after AttentionParams of the kernels that need one of these. Never: is given to a kernel of dense keys,
// one length and no window. Threads: plain data, read-only on the device.
#pragma once

namespace gqa {

struct CacheParams {
  const int* lengths;      // keys of each sequence, at most kv_len count; null: all have kv_len, or k_starts says
  const int* pages;        // the table: which page holds a sequence's keys; null where there are none
  long long table_stride;  // entries from a sequence's row to the next
  int page_count;          // pages that exist
  int window_left, window_right;  // keys before and after the query's own; below kv_len, q_len; -1: all of them
  int k_in_slots;                 // not 0: k_starts are in any order, and `lengths` alone ends a sequence's keys
  // Where queries and keys are packed: the row of each sequence's first, and last where the last one ends; else null.
  // Values begin at k_starts too, or, of a cache whose values are not as many rows apart, at rows of their own.
  const int* q_starts;
  const int* k_starts;
  const int* v_starts;
  const int* q_lengths;  // queries of each packed sequence, at most q_len count; null: q_starts says
  // Keys of each sequence that the launch appends to those of `lengths`, as far as kv_len, and whether these and
  // queries are rotated: NewTokens has them. Said here, so that who appends nothing reads nothing more.
  int added, rotates;
};

static_assert(sizeof(CacheParams) == 80, "host and device must agree on CacheParams");

}  // namespace gqa

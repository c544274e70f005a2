// page_table.cuh: where a key of a sequence lies that has its keys in pages.
// Owns: the table's entry of a key, and the key's row in the tensor: (pages, kPage, kv_heads, head_dim), the batch
// stride being a page's. Whoever copies keys by their addresses asks here.
// Never: decides which keys are looked up: entries past a sequence's end may be anything, or not exist.
// Threads: values.
#pragma once

#include "attention/common/cache_params.h"
#include "attention/common/params.h"

namespace gqa {

template <typename Config>
struct PageTable {
  const CacheParams* cache;
  const int* entries;  // the sequence's

  __device__ explicit PageTable(const CacheParams* cache_params) : cache(cache_params) {}

  __device__ void open(long long sequence) { entries = cache->pages + sequence * cache->table_stride; }

  __device__ int entry(int of_sequence) const { return __ldg(entries + of_sequence); }

  // An entry that names no page is the caller's mistake; no other memory is read for it.
  __device__ int existing(int entry) const { return max(0, min(entry, cache->page_count - 1)); }

  // The row of a page's slot; `head`: the first page's first. key_source.cuh writes the sum out, since its kernels
  // would be other machine code.
  template <typename Bits>
  static __device__ const Bits* row(const Bits* head, int page, int slot, const TensorStrides& s) {
    return head + page * s.batch + slot * s.row;
  }
};

}  // namespace gqa

// checked_keys.cuh: where a checked row of queries lies, which keys it sees, and where they lie.
// Owns: the address and the mask again: what judges a kernel shares no rule with it.
// Never: reads a query, a key or a value.
// Threads: any, by itself.
#pragma once

#include "check/check_params.h"

namespace gqa {

// Where checked row `index` lies: rows are numbered (batch, head, position). The checked ones exist.
struct CheckedRow {
  int batch, head, position, first;  // first: row of the sequence's first query, where they are packed
  __device__ CheckedRow(const AttentionParams& p, const CheckParams& c, long long index) {
    position = static_cast<int>(index % p.q_len);
    head = static_cast<int>(index / p.q_len % p.q_heads);
    batch = static_cast<int>(index / p.q_len / p.q_heads);
    first = c.q_starts == nullptr ? 0 : c.q_starts[batch];
  }
  __device__ long long offset(const TensorStrides& s) const {
    return batch * s.batch + (first + position) * s.row + head * s.head;
  }
};

// The length of sequence b, at most `most`: what `lengths` says, or else the distance of its starts.
__device__ inline int checked_length(const int* starts, const int* lengths, int b, int most) {
  const int given = lengths != nullptr ? lengths[b] : starts != nullptr ? starts[b + 1] - starts[b] : most;
  return max(0, min(given, most));
}

// The keys of the checked row's sequence and head, where they lie, and which of them the row sees: [first, end). The
// last query stands at the last key.
struct CheckedKeys {
  const AttentionParams& p;
  const CheckParams& c;
  const CacheParams& cache;
  const CheckedRow& row;
  int kv_head, first, end;

  __device__ CheckedKeys(const AttentionParams& params, const CheckParams& check, const CacheParams& cache_params,
                         const CheckedRow& checked)
      : p(params),
        c(check),
        cache(cache_params),
        row(checked),
        kv_head(checked.head / (params.q_heads / params.kv_heads)) {
    const int keys = checked_length(cache.k_starts, cache.lengths, row.batch, p.kv_len);
    const int queries = checked_length(cache.q_starts, cache.q_lengths, row.batch, p.q_len);
    const int own = row.position + keys - queries, right = c.causal ? 0 : cache.window_right;
    first = cache.window_left < 0 ? 0 : max(0, min(own - cache.window_left, keys));
    end = right < 0 ? keys : max(0, min(own + right + 1, keys));
  }

  // Elements from the tensor's first to the key's.
  __device__ long long at(const TensorStrides& s, int key) const {
    const int page = c.page == 0 ? row.batch : cache.pages[row.batch * cache.table_stride + key / c.page];
    const long long slot =
        (c.page == 0 ? key : key % c.page) + (cache.k_starts == nullptr ? 0 : cache.k_starts[row.batch]);
    return page * s.batch + slot * s.row + kv_head * s.head;
  }
  __device__ long long k(int key) const { return at(p.k_strides, key); }
  __device__ long long v(int key) const { return at(p.v_strides, key); }
};

}  // namespace gqa

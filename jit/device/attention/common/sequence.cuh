// sequence.cuh: where a sequence begins and how long it is, where the launch's lists say so.
// Owns: reading the lists of CacheParams, within the launch's maxima: a wrong length costs an answer, not a fault.
// Never: reads a list that the Config does not have. The host's twin is runtime/call/sequence.h.
// Threads: values, the same in all of a CTA.
#pragma once

#include "attention/common/cache_params.h"
#include "attention/common/features.cuh"
#include "attention/common/params.h"

namespace gqa {

// Rows of a packed sequence: as many as there are before the next one, of which `lengths` may use fewer.
__device__ inline int packed_length(const int* starts, const int* lengths, int sequence) {
  const int rows = __ldg(starts + sequence + 1) - __ldg(starts + sequence);
  return lengths != nullptr ? min(__ldg(lengths + sequence), rows) : rows;
}

__device__ inline int packed_keys(const CacheParams* cache, int sequence) {
  if (cache->k_in_slots != 0) return __ldg(cache->lengths + sequence);
  return packed_length(cache->k_starts, cache->lengths, sequence);
}

// Keys that a sequence's cache holds before the launch, where a list says so and the sequence is not packed.
template <typename Config>
__device__ inline int cached_keys(const AttentionParams& p, const CacheParams* cache, int sequence) {
  return max(0, min(__ldg(cache->lengths + sequence), p.kv_len));
}

template <typename Config>
__device__ inline int keys_of(const AttentionParams& p, const CacheParams* cache, int sequence) {
  if constexpr (keys_packed<Config>())
    return max(0, min(packed_keys(cache, sequence), p.kv_len));
  else if constexpr (appends<Config>())
    return min(cached_keys<Config>(p, cache, sequence) + cache->added, p.kv_len);
  else if constexpr (lengths_differ<Config>())
    return cached_keys<Config>(p, cache, sequence);
  else
    return p.kv_len;
}

template <typename Config>
__device__ inline int queries_of(const AttentionParams& p, const CacheParams* cache, int sequence) {
  if constexpr (queries_packed<Config>())
    return max(0, min(packed_length(cache->q_starts, cache->q_lengths, sequence), p.q_len));
  else
    return p.q_len;
}

// Rows of q, out and lse before a sequence's own.
template <typename Config>
__device__ inline long long first_query_of(const CacheParams* cache, int sequence) {
  if constexpr (queries_packed<Config>())
    return __ldg(cache->q_starts + sequence);
  else
    return 0;
}

// Rows of k or v before a sequence's own; first_rows: CacheParams' k_starts or v_starts.
template <typename Config>
__device__ inline long long first_key_of(const int* first_rows, int sequence) {
  if constexpr (keys_packed<Config>())
    return __ldg(first_rows + sequence);
  else
    return 0;
}

}  // namespace gqa

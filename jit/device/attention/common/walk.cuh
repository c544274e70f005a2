// walk.cuh: which keys a packed row sees, and which blocks of keys a row tile visits.
// Owns: the rule of each mask (all, causal, window), aligned bottom-right to the sequence's own length, and which
// blocks need a mask. Loops ask here; nobody else knows of causality or windows.
// Never: touches keys; reads a list (sequence.cuh does).
// Threads: values, the same in all of a CTA.
#pragma once

#include "attention/common/sequence.cuh"
#include "attention/common/tile.cuh"
#include "ptx/element.cuh"

namespace gqa {

// As search/problem/kernel_traits.h has them: Config::kMask.
enum class Mask { kNone, kCausal, kWindow };

template <typename Config>
__device__ constexpr bool has_window() {
  return Config::kMask == Mask::kWindow;
}

// What packed row `row` sees under a causal mask, or none, where sequences have one length. Written out apart from
// Walk::limit(), of which the assembler makes other code for flash.
template <typename Config>
__device__ inline int plain_limit(const AttentionParams& p, int row) {
  if constexpr (Config::kMask != Mask::kCausal) return p.kv_len;
  const int position = row / Config::kPack;
  return max(0, min(p.kv_len, position + p.kv_len - p.q_len + 1));
}

// The walk of one sequence's row tiles. A row sees keys [first(row), limit(row)).
template <typename Config>
struct Walk {
  // Whether rows of a tile may see different keys, so that what is loaded for all of them some do not see.
  static constexpr bool kRowsDiffer = Config::kMask != Mask::kNone;
  // Whether a list says how long the sequence is.
  static constexpr bool kListed = lengths_differ<Config>() || queries_packed<Config>();

  const AttentionParams& p;
  const CacheParams* cache;  // null where the Config needs none
  int length;                // of the sequence, where each has its own
  int own_queries;           // of the sequence, where they are packed

  __device__ Walk(const AttentionParams& params, const CacheParams* cache_params, int sequence)
      : p(params), cache(cache_params), length(0), own_queries(0) {
    if constexpr (lengths_differ<Config>()) length = keys_of<Config>(p, cache, sequence);
    if constexpr (queries_packed<Config>()) own_queries = queries_of<Config>(p, cache, sequence);
  }

  // The walk of a sequence whose lengths somebody has read from the lists.
  __device__ Walk(const AttentionParams& params, int keys, int queries)
      : p(params), cache(nullptr), length(keys), own_queries(queries) {
    static_assert(!has_window<Config>(), "a window comes with CacheParams");
  }

  // The walk where sequences have one length, and there is no window.
  __device__ explicit Walk(const AttentionParams& params) : p(params), cache(nullptr), length(0), own_queries(0) {
    static_assert(!kListed && !has_window<Config>(), "these come with CacheParams");
  }

  __device__ int keys() const {
    if constexpr (lengths_differ<Config>()) return length;
    return p.kv_len;
  }
  __device__ int queries() const {
    if constexpr (queries_packed<Config>()) return own_queries;
    return p.q_len;
  }

  // The query's own key: the last query's is the last.
  __device__ int own_key(int row) const { return row / Config::kPack + keys() - queries(); }
  __device__ int within(int key) const { return max(0, min(keys(), key)); }

  __device__ int limit(int row) const {
    if constexpr (!kListed && !has_window<Config>()) {
      return plain_limit<Config>(p, row);
    } else if constexpr (has_window<Config>()) {
      return cache->window_right < 0 ? keys() : within(own_key(row) + cache->window_right + 1);
    } else {
      return Config::kMask == Mask::kCausal ? within(own_key(row) + 1) : keys();
    }
  }
  __device__ int first(int row) const {
    if constexpr (!has_window<Config>()) return 0;
    return cache->window_left < 0 ? 0 : within(own_key(row) - cache->window_left);
  }

  // The last row before `end` that exists: it sees most.
  __device__ int last_before(int end) const { return min(end, queries() * Config::kPack) - 1; }
  __device__ int seen_before(int end) const { return limit(last_before(end)); }
  template <int kRows = Config::kTileM>
  __device__ int last_row(int first_row) const {
    return last_before(first_row + kRows);
  }
  // Keys that the tile's rows see between them: [begin, end).
  __device__ int begin(int first_row) const { return first(first_row); }
  __device__ int end(int first_row) const { return limit(last_row(first_row)); }

  // Blocks of keys that the tile visits: first_block() .. end_block(), and so many.
  __device__ int first_block(int first_row) const { return begin(first_row) / Config::kTileN; }
  __device__ int end_block(int first_row) const { return (end(first_row) + Config::kTileN - 1) / Config::kTileN; }
  __device__ int blocks(int first_row) const { return max(0, end_block(first_row) - first_block(first_row)); }

  // Which keys are loaded for the tile's rows.
  __device__ auto loaded(int first_row) const {
    if constexpr (has_window<Config>())
      return Between{begin(first_row), end(first_row)};
    else if constexpr (lengths_differ<Config>())
      return Below{end(first_row)};
    else
      return Below{p.kv_len};
  }

  // Whether some of the tile's rows, or of kRows, may not see all keys of the block: the first row sees least, but of a
  // window, whose last row sees least of what comes before.
  template <int kRows = Config::kTileM>
  __device__ bool needs_mask(int first_row, int first_key) const {
    if constexpr (has_window<Config>()) {
      if (first_key < first(last_row<kRows>(first_row))) return true;
    }
    return first_key + Config::kTileN > limit(first_row);
  }
};

// A score becomes -inf where its key, `column` past this lane's first, is at or past the limit.
__device__ inline void mask_score(float& score, int column, int limit) {
  if (column + static_cast<int>(threadIdx.x) % 4 * 2 >= limit) score = negative_infinity();
}

// Masks one fragment row of scores: keys first_key .. at or past the limit become -inf. `half` 0: row g, 1: row g + 8.
template <int kFragments>
__device__ inline void mask_row(float (&scores)[kFragments][4], int half, int first_key, int limit) {
  const int lane_key = first_key + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_key + n * 8 + c >= limit) scores[n][2 * half + c] = negative_infinity();
    }
  }
}

// The same for keys before `first`.
template <int kFragments>
__device__ inline void mask_row_before(float (&scores)[kFragments][4], int half, int first_key, int first) {
  const int lane_key = first_key + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_key + n * 8 + c < first) scores[n][2 * half + c] = negative_infinity();
    }
  }
}

}  // namespace gqa

// tile_sequence.cuh: what a CTA's roles know of a tile's sequence, where lists say how long it is or where it lies.
// Owns: ProducerSequence, which reads the launch's lists; ConsumerSequence, which reads the tile's ticket, whose words
// only a scheduler of parts would use; where a sequence's rows lie in the tensor maps. Both are bases, and empty where
// all sequences are alike.
// Never: costs such a kernel anything. Threads: one producer thread; consumers.
#pragma once

#include "attention/common/walk.cuh"
#include "attention/wgmma_flash/schedule.cuh"

namespace gqa {

// Whether a list says something of a sequence. One does where keys lie in pages, too: the last page need not be full.
template <typename Config>
__host__ __device__ constexpr bool has_lists() {
  return Walk<Config>::kListed || Config::kKeys == KeyLayout::kPaged;
}

// Packed sequences are one in the tensor maps.
template <typename Config>
__device__ inline int query_slab(const Place& place) {
  return queries_packed<Config>() ? 0 : place.batch;
}
template <typename Config>
__device__ inline int key_slab(const Place& place) {
  return keys_packed<Config>() ? 0 : place.batch;
}

// A producer's: a base of it.
template <typename Config, bool = has_lists<Config>()>
struct ProducerSequence {
  __device__ void open_sequence(const AttentionParams&, int) {}
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p); }
  __device__ static int query_row(int position) { return position; }
  static constexpr int first_key = 0, first_value = 0;
};

template <typename Config>
struct ProducerSequence<Config, true> {
  static_assert(!Config::TileScheduler::kHasParts && cluster_size<Config>() == 1, "they count blocks of one length");

  const CacheParams* cache;
  // Sizes of the current tile's sequence, and the rows before its own: others' where sequences are packed.
  int keys, queries, first_query, first_key, first_value;

  __device__ void open_sequence(const AttentionParams& p, int sequence) {
    keys = keys_of<Config>(p, cache, sequence);
    queries = queries_of<Config>(p, cache, sequence);
    first_query = static_cast<int>(first_query_of<Config>(cache, sequence));
    first_key = static_cast<int>(first_key_of<Config>(cache->k_starts, sequence));
    first_value = static_cast<int>(first_key_of<Config>(cache->v_starts, sequence));
  }
  __device__ SchedulerWords words() const {  // of the tile's ticket
    if constexpr (queries_packed<Config>()) return {{keys, queries, first_query}};
    return {{keys}};
  }
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p, keys, queries); }
  __device__ int query_row(int position) const { return first_query + position; }
};

// A consumer's: a base of what lives through a tile. Words are read anew where they are asked for, since a loop has few
// registers to spare.
template <typename Config, bool = has_lists<Config>()>
struct ConsumerSequence {
  __device__ void set_sequence(const volatile SchedulerWords&) {}
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p); }
  __device__ static bool has_row(const AttentionParams& p, int row) { return row_exists<Config>(p, row); }
  __device__ static int first_query() { return 0; }
};

template <typename Config>
struct ConsumerSequence<Config, true> {
  const volatile SchedulerWords* words;  // of the tile's ticket
  __device__ void set_sequence(const volatile SchedulerWords& of_ticket) { words = &of_ticket; }
  __device__ int queries(const AttentionParams& p) const {
    if constexpr (queries_packed<Config>()) return words->word[1];
    return p.q_len;  // not beside the words in one expression: it would be volatile, too, and read from global memory
  }
  __device__ int first_query() const {
    if constexpr (queries_packed<Config>()) return words->word[2];
    return 0;
  }
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p, words->word[0], queries(p)); }
  __device__ bool has_row(const AttentionParams& p, int row) const { return row_exists<Config>(p, queries(p), row); }
};

}  // namespace gqa

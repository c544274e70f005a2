// tile_sequence.cuh: what a CTA's roles know of a tile's sequence, where sequences have lengths of their own.
// Owns: ProducerSequence, which reads the launch's lists; ConsumerSequence, which reads the tile's ticket, whose words
// only a scheduler of parts would use. Both are bases, and empty where all sequences are alike.
// Never: costs such a kernel anything. Threads: one producer thread; consumers.
#pragma once

#include "attention/common/walk.cuh"
#include "attention/wgmma_flash/schedule.cuh"

namespace gqa {

// A producer's: a base of it.
template <typename Config, bool = Walk<Config>::kListed>
struct ProducerSequence {
  __device__ void open_sequence(const AttentionParams&, int) {}
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p); }
};

template <typename Config>
struct ProducerSequence<Config, true> {
  static_assert(!Config::TileScheduler::kHasParts && cluster_size<Config>() == 1, "they count blocks of one length");

  const CacheParams* cache;
  int keys;  // of the current tile's sequence

  __device__ void open_sequence(const AttentionParams& p, int sequence) { keys = keys_of<Config>(p, cache, sequence); }
  __device__ SchedulerWords words() const { return {{keys}}; }  // of the tile's ticket
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p, keys, p.q_len); }
};

// A consumer's: a base of what lives through a tile. Words are read anew where they are asked for, since a loop has few
// registers to spare.
template <typename Config, bool = Walk<Config>::kListed>
struct ConsumerSequence {
  __device__ void set_sequence(const volatile SchedulerWords&) {}
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p); }
};

template <typename Config>
struct ConsumerSequence<Config, true> {
  const volatile SchedulerWords* words;  // of the tile's ticket
  __device__ void set_sequence(const volatile SchedulerWords& of_ticket) { words = &of_ticket; }
  __device__ Walk<Config> walk(const AttentionParams& p) const { return Walk<Config>(p, words->word[0], p.q_len); }
};

}  // namespace gqa

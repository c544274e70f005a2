// key_source.cuh: where a sequence's keys and values lie in global memory, and bringing a block of them to shared
// memory: dense, transposed, or in pages that a table names. Owns: the address of (sequence, head, key); which keys of
// a block are loaded: what nobody sees comes as zeros, and is neither read nor looked up. Never: waits; the family's
// kernel owns the pipeline. Never reads a table's entry past what is seen, nor a page that does not exist. Threads:
// kThreads bring a block together, whole warps; the lanes of each look up pages for each other.
#pragma once

#include "attention/common/keys.cuh"
#include "attention/common/page_table.cuh"
#include "attention/common/rows.cuh"

namespace gqa {

// The order in which a walk asks for its blocks.
enum class BlockOrder { kUp, kDown };

// A head's keys and values of a sequence whose keys follow each other, a row a key or (kTransposed) a column a key; of
// packed ones, after those of others.
template <typename Config, int kThreads, BlockOrder kOrder, KeyLayout kKeys>
struct KeySource {
  using Bits = KvBits<Config>;

  const AttentionParams& p;
  const CacheParams* cache;
  const Bits* k_head;
  const Bits* v_head;

  __device__ KeySource(const AttentionParams& params, const CacheParams* cache_params)
      : p(params), cache(cache_params) {}

  __device__ void open(const Place& place) {
    k_head = static_cast<const Bits*>(p.k) + place.batch * p.k_strides.batch + place.kv_head * p.k_strides.head;
    v_head = static_cast<const Bits*>(p.v) + place.batch * p.v_strides.batch + place.kv_head * p.v_strides.head;
    if constexpr (keys_packed<Config>()) {
      k_head += first_key_of<Config>(cache->k_starts, place.batch) * p.k_strides.row;
      v_head += first_key_of<Config>(cache->v_starts, place.batch) * p.v_strides.row;
    }
  }

  // The head's row of a key, and of its value.
  __device__ const Bits* k_row(int key) const { return k_head + key * p.k_strides.row; }
  __device__ const Bits* v_row(int key) const { return v_head + key * p.v_strides.row; }

  // A walk of blocks below `end`, from 0 up or from end - 1 down. first_key(i): of its block i; loaded(): which keys
  // are (tile.cuh). Both are asked anew, since a loop may have no register to keep the answer. Blocks are then copied
  // in turn, the keys of each before its values, and both before the next one's keys.
  template <typename FirstKey, typename Loaded>
  __device__ void start(int, FirstKey, Loaded) {}

  template <typename FirstKey, typename Loaded>
  __device__ void copy_k(char* tile, int thread, int block, FirstKey first_key, Loaded loaded) const {
    KeyTile<Config>::template copy<kThreads>(tile, thread, k_head, p.k_strides.row, first_key(block), loaded());
  }

  template <typename FirstKey, typename Loaded>
  __device__ void copy_v(char* tile, int thread, int block, FirstKey first_key, Loaded loaded) const {
    copy_keys<Config::kTileN, Config::kHeadDimV, kThreads, Config::kAlign, kKeyEviction<Config>>(
        tile, thread, v_head, p.v_strides.row, first_key(block), loaded());
  }
};

// Pages of kPage keys: (pages, kPage, kv_heads, head_dim), the batch stride being a page's.
template <typename Config, int kThreads, BlockOrder kOrder>
struct KeySource<Config, kThreads, kOrder, KeyLayout::kPaged> {
  using Bits = KvBits<Config>;
  static constexpr int kPage = Config::kPage;
  static constexpr int kTileN = Config::kTileN;
  // Keys of a block that lie in one page whatever block it is, and how many such chunks a block has.
  static constexpr int kChunk = kPage % kTileN == 0 ? kTileN : kTileN % kPage == 0 ? kPage : 1;
  static constexpr int kChunks = kTileN / kChunk;
  // Lanes look up the pages of so many blocks at once, and hold those of the next as many.
  static constexpr int kGroup = kChunks < 32 ? 32 / kChunks : 1;
  static constexpr int kLookUps = (kChunks + 31) / 32;
  static constexpr bool kDown = kOrder == BlockOrder::kDown;

  const AttentionParams& p;
  PageTable<Config> table;
  int kv_head;
  int blocks;  // of a walk up
  int page[kLookUps], next_page[kLookUps];

  __device__ KeySource(const AttentionParams& params, const CacheParams* cache_params)
      : p(params), table{cache_params} {}

  __device__ void open(const Place& place) {
    table.open(place.batch);
    kv_head = place.kv_head;
  }

  __device__ const Bits* row(const void* tensor, const TensorStrides& s, int key) const {
    return PageTable<Config>::row(static_cast<const Bits*>(tensor) + kv_head * s.head,
                                  table.existing(table.entry(key / kPage)), key % kPage, s);
  }
  __device__ const Bits* k_row(int key) const { return row(p.k, p.k_strides, key); }
  __device__ const Bits* v_row(int key) const { return row(p.v, p.v_strides, key); }

  // Whether chunks are worth a loop each: those that keep all threads busy; of a warp, those of two rows.
  template <int kColumns>
  static constexpr bool by_chunks() {
    return kChunk > 1 && (kThreads == 32 || kChunk * (kColumns / kPiece<Bits>) >= kThreads);
  }

  // Looks up the pages of the group that begins with the block. A walk down goes past block 0, one up past its end.
  template <typename FirstKey, typename Loaded>
  __device__ void look_up(int (&pages)[kLookUps], int first_block, FirstKey first_key, Loaded loaded) const {
#pragma unroll
    for (int i = 0; i < kLookUps; ++i) {
      const int at = i * 32 + static_cast<int>(threadIdx.x) % 32;
      const int block = first_block + at / kChunks, key = first_key(block) + at % kChunks * kChunk;
      const bool walked = kDown ? block >= 0 : block < blocks;
      const bool seen = at < kGroup * kChunks && walked && loaded().any(key, key + kChunk);
      pages[i] = seen ? table.existing(table.entry(key / kPage)) : 0;
    }
  }

  template <typename FirstKey, typename Loaded>
  __device__ void start(int end, FirstKey first_key, Loaded loaded) {
    if constexpr (kDown) {
      look_up(page, (end - 1) / kGroup * kGroup, first_key, loaded);
      look_up(next_page, (end / kGroup - 1) * kGroup, first_key, loaded);  // where end ends a group: that one
    } else {
      blocks = end;
      look_up(page, 0, first_key, loaded);
      look_up(next_page, kGroup, first_key, loaded);
    }
  }

  __device__ int page_of(int block, int chunk) const {
    const int at = block % kGroup * kChunks + chunk;
    int found = __shfl_sync(0xffffffffu, page[0], at % 32);
#pragma unroll
    for (int i = 1; i < kLookUps; ++i) {
      const int other = __shfl_sync(0xffffffffu, page[i], at % 32);
      if (at / 32 == i) found = other;
    }
    return found;
  }

  template <int kColumns, typename Valid>
  __device__ void copy_one(char* tile, int thread, const void* tensor, const TensorStrides& s, int block, int first,
                           Valid valid) const {
    const Bits* head = static_cast<const Bits*>(tensor) + kv_head * s.head;
    if constexpr (by_chunks<kColumns>()) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        // As if the page's keys followed others in a dense head, so that keys keep their numbers.
        const int key = first + chunk * kChunk;
        const Bits* page_head = head + page_of(block, chunk) * s.batch + (key % kPage - key) * s.row;
        copy_keys<kChunk, kColumns, kThreads, Config::kAlign, kKeyEviction<Config>>(
            tile + chunk * kChunk * row_pitch<Bits>(kColumns), thread, page_head, s.row, key, valid);
      }
    } else {
      copy_tile<Bits, kTileN, kColumns, kThreads, Config::kAlign, kKeyEviction<Config>>(
          tile, thread, [&](int r, auto piece) {
            const int key = first + r;
            piece(head + page_of(block, r / kChunk) * s.batch + key % kPage * s.row, valid(key));
          });
    }
  }

  template <typename FirstKey, typename Loaded>
  __device__ void copy_k(char* tile, int thread, int block, FirstKey first_key, Loaded loaded) {
    if ((kDown || block > 0) && block % kGroup == (kDown ? kGroup - 1 : 0)) {
#pragma unroll
      for (int i = 0; i < kLookUps; ++i) page[i] = next_page[i];
      look_up(next_page, kDown ? block + 1 - 2 * kGroup : block + kGroup, first_key, loaded);
    }
    copy_one<Config::kHeadDim>(tile, thread, p.k, p.k_strides, block, first_key(block), loaded());
  }

  template <typename FirstKey, typename Loaded>
  __device__ void copy_v(char* tile, int thread, int block, FirstKey first_key, Loaded loaded) const {
    copy_one<Config::kHeadDimV>(tile, thread, p.v, p.v_strides, block, first_key(block), loaded());
  }
};

template <typename Config, int kThreads, BlockOrder kOrder>
using KeysOf = KeySource<Config, kThreads, kOrder, Config::kKeys>;

}  // namespace gqa

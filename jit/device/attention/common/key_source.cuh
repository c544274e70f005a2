// key_source.cuh: where a sequence's keys and values lie in global memory, and bringing a block of them to shared
// memory: dense, transposed, or in pages that a table names. Owns: the address of (sequence, head, key); which keys of
// a block are brought: what nobody sees comes as zeros, and is neither read nor looked up. Never: waits; the family's
// kernel owns the pipeline. Never reads a table's entry past what is seen, nor a page that does not exist. Threads: a
// warp brings a block; its lanes look up pages for each other.
#pragma once

#include "attention/common/keys.cuh"
#include "attention/common/rows.cuh"

namespace gqa {

// A head's keys and values of a sequence whose keys follow each other.
template <typename Config, bool kPaged>
struct KeySource {
  const AttentionParams& p;
  const u16* k_head;
  const u16* v_head;

  __device__ KeySource(const AttentionParams& params, const CacheParams*) : p(params) {}

  __device__ void open(const Place& place) {
    k_head = static_cast<const u16*>(p.k) + place.batch * p.k_strides.batch + place.kv_head * p.k_strides.head;
    v_head = static_cast<const u16*>(p.v) + place.batch * p.v_strides.batch + place.kv_head * p.v_strides.head;
  }

  // Blocks 0 .. count of a warp's walk; first_key(i): of its block i. copy() then asks for them in turn.
  template <typename FirstKey, typename Valid>
  __device__ void start(int, FirstKey, Valid) {}

  template <typename FirstKey, typename Valid>
  __device__ void copy(char* k, char* v, int lane, int block, FirstKey first_key, Valid valid) const {
    const int first = first_key(block);
    if constexpr (keys_transposed<Config>())
      KeyTile<Config>::template copy<32>(k, lane, k_head, p.k_strides.row, first, valid);
    else
      copy_keys<Config::kTileN, Config::kHeadDim, 32, Config::kAlign>(k, lane, k_head, p.k_strides.row, first, valid);
    copy_keys<Config::kTileN, Config::kHeadDimV, 32, Config::kAlign>(v, lane, v_head, p.v_strides.row, first, valid);
  }
};

// Pages of kPage keys: (pages, kPage, kv_heads, head_dim), the batch stride being a page's.
template <typename Config>
struct KeySource<Config, true> {
  static constexpr int kPage = page_size<Config>();
  static constexpr int kTileN = Config::kTileN;
  // Keys of a block that lie in one page whatever block it is, and how many such chunks a block has.
  static constexpr int kChunk = kPage % kTileN == 0 ? kTileN : kTileN % kPage == 0 ? kPage : 1;
  static constexpr int kChunks = kTileN / kChunk;
  static constexpr int kFewestRows = 2;  // of a chunk that are worth a loop of their own
  // Lanes look up the pages of so many blocks at once, and hold those of the next as many.
  static constexpr int kGroup = kChunks < 32 ? 32 / kChunks : 1;
  static constexpr int kLookUps = (kChunks + 31) / 32;

  const AttentionParams& p;
  const CacheParams* cache;
  const int* table;  // the sequence's
  int kv_head, blocks;
  int page[kLookUps], next_page[kLookUps];

  __device__ KeySource(const AttentionParams& params, const CacheParams* cache_params)
      : p(params), cache(cache_params) {}

  __device__ void open(const Place& place) {
    table = cache->pages + place.batch * cache->table_stride;
    kv_head = place.kv_head;
  }

  // An entry that names no page is the caller's mistake; no other memory is read for it.
  __device__ int existing(int entry) const { return max(0, min(entry, cache->page_count - 1)); }

  template <typename FirstKey, typename Valid>
  __device__ void look_up(int (&pages)[kLookUps], int first_block, FirstKey first_key, Valid valid) const {
#pragma unroll
    for (int i = 0; i < kLookUps; ++i) {
      const int at = i * 32 + static_cast<int>(threadIdx.x) % 32;
      const int block = first_block + at / kChunks, key = first_key(block) + at % kChunks * kChunk;
      const bool seen = at < kGroup * kChunks && block < blocks && valid.any(key, key + kChunk);
      pages[i] = seen ? existing(__ldg(table + key / kPage)) : 0;
    }
  }

  template <typename FirstKey, typename Valid>
  __device__ void start(int count, FirstKey first_key, Valid valid) {
    blocks = count;
    look_up(page, 0, first_key, valid);
    look_up(next_page, kGroup, first_key, valid);
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
  __device__ void copy_one(char* tile, int lane, const void* tensor, const TensorStrides& s, int block, int first,
                           Valid valid) const {
    const u16* head = static_cast<const u16*>(tensor) + kv_head * s.head;
    if constexpr (kChunk >= kFewestRows) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        // As if the page's keys followed others in a dense head, so that keys keep their numbers.
        const int key = first + chunk * kChunk;
        const u16* page_head = head + page_of(block, chunk) * s.batch + (key % kPage - key) * s.row;
        copy_keys<kChunk, kColumns, 32, Config::kAlign>(tile + chunk * kChunk * row_pitch(kColumns), lane, page_head,
                                                        s.row, key, valid);
      }
    } else {
      copy_tile<kTileN, kColumns, 32, Config::kAlign>(tile, lane, [&](int r, auto piece) {
        const int key = first + r;
        piece(head + page_of(block, r) * s.batch + key % kPage * s.row, valid(key));
      });
    }
  }

  template <typename FirstKey, typename Valid>
  __device__ void copy(char* k, char* v, int lane, int block, FirstKey first_key, Valid valid) {
    if (block > 0 && block % kGroup == 0) {
#pragma unroll
      for (int i = 0; i < kLookUps; ++i) page[i] = next_page[i];
      look_up(next_page, block + kGroup, first_key, valid);
    }
    const int first = first_key(block);
    copy_one<Config::kHeadDim>(k, lane, p.k, p.k_strides, block, first, valid);
    copy_one<Config::kHeadDimV>(v, lane, p.v, p.v_strides, block, first, valid);
  }
};

template <typename Config>
using KeysOf = KeySource<Config, (page_size<Config>() > 0)>;

}  // namespace gqa

// block_pages.cuh: a block of keys or values in pages, as TMA's boxes.
// Owns: BlockPages: the pages of a block, looked up, and the boxes that bring it. Where keys lie otherwise it is empty,
// and a block is a box a panel (warpgroup_producer.cuh).
// Never: waits, or knows a ring. Threads: one producer thread.
#pragma once

#include "attention/wgmma_flash/tile_sequence.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace gqa {

template <typename Config, bool = Config::kKeys == KeyLayout::kPaged>
struct BlockPages {
  __device__ static BlockPages of(const ProducerSequence<Config>&, const Place&, int) { return {}; }
};

__host__ __device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// A box a panel of each chunk, the keys of a block that lie in one page whatever block it is; the map's slabs are
// pages. Past the sequence's end the table says nothing: such chunks are of a page past the last, which comes as zeros,
// and so does one whose entry is wrong.
template <typename Config>
struct BlockPages<Config, true> {
  static constexpr int kPage = Config::kPage;
  static constexpr int kChunk = common_divisor(kPage, Config::kTileN);  // search/families/wgmma_flash/resources.cc
  static constexpr int kChunks = Config::kTileN / kChunk;
  static_assert(kChunk % 8 == 0, "the swizzle repeats every 8 rows");

  int page[kChunks];

  __device__ static BlockPages of(const ProducerSequence<Config>& sequence, const Place& place, int block) {
    const CacheParams& cache = *sequence.cache;
    const int* table = cache.pages + place.batch * cache.table_stride;
    BlockPages pages;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int key = block * Config::kTileN + i * kChunk;
      pages.page[i] = key < sequence.keys ? __ldg(table + key / kPage) : cache.page_count;
    }
    return pages;
  }

  template <int kPanels, int kPanelBytes>
  __device__ void load(u32 buffer, const TensorMap& map, u32 full, int kv_head, int first_key) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i)
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel)
        load_box(buffer + panel * kPanelBytes + i * kChunk * kPanelRowBytes, map, full, panel * kPanelColumns,
                 (first_key + i * kChunk) % kPage, kv_head, page[i]);
  }
};

}  // namespace gqa

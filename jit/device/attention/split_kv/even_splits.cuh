// even_splits.cuh: the blocks of keys of all row tiles as one list, sequence after sequence, cut into as many equal
// parts as there are CTAs. Lengths are read here, on the device, so that sequences of any lengths keep all CTAs busy
// alike. Owns: the list's order (sequence, row tile, head group, block), this CTA's cut of it, and which parts a tile
// has. Never: holds the list: a prefix sum over the sequences finds the cut's beginning, the rest follows from lengths.
// Threads: all of a CTA together; next() is the same in each.
#pragma once

#include "attention/common/rows.cuh"

namespace gqa {

// Part `number` of `count` of a tile. tile: what the tile's arrival counter and its parts are found by.
struct Part {
  int tile, number, count;

  // Of the even cut, `tile` is the CTA that has the tile's first part. A CTA leaves two parts at most: of a tile that
  // others began, and of one that it begins itself.
  __device__ int slot(int which) const { return tile + (which == 0 ? static_cast<int>(gridDim.x) : which); }
};

template <typename Config>
struct EvenSplits {
  static constexpr int kThreads = Config::kWarps * 32;
  // A tile counts for so many blocks more: queries, merge and out. Tiles without keys are in the list by it.
  static constexpr int kOverhead = 1;

  const AttentionParams& p;
  const CacheParams* cache;
  int total, ctas;       // blocks in the list; CTAs that have any
  int at, end;           // what is left of this CTA's cut
  int sequence, listed;  // the sequence that holds `at`, and what the list holds before it
  Part part;
  Place place;
  int first_block, blocks;

  // scan: kWarps + 1 words of shared memory, free again when this returns.
  __device__ EvenSplits(const AttentionParams& params, const CacheParams* cache_params, int* scan)
      : p(params), cache(cache_params) {
    const int each = (p.batch + kThreads - 1) / kThreads, thread = threadIdx.x;
    const int first = min(thread * each, p.batch), last = min(first + each, p.batch);
    int mine = 0;
    for (int b = first; b < last; ++b) mine += blocks_of(b);
    const int before = sum_before(mine, scan);
    ctas = min(static_cast<int>(gridDim.x), total);
    at = cut(blockIdx.x);
    end = cut(blockIdx.x + 1);
    find_sequence(first, last, before, scan);
  }

  // The list's first block of CTA number `cta`.
  __device__ int cut(int cta) const { return static_cast<int>(static_cast<long long>(total) * min(cta, ctas) / ctas); }
  // The CTA whose cut has the list's block number `block`.
  __device__ int cta_of(int block) const {
    return static_cast<int>((static_cast<long long>(block + 1) * ctas - 1) / total);
  }

  __device__ int tile_blocks(const Walk<Config>& walk, int tile) const {
    return walk.blocks(tile * Config::kTileM) + kOverhead;
  }

  __device__ int blocks_of(int b) const {
    const Walk<Config> walk(p, cache, b);
    int sum = 0;
    for (int tile = 0; tile < p.row_tiles; ++tile) sum += tile_blocks(walk, tile);
    return sum * p.head_groups;
  }

  // Sets `total`.
  __device__ int sum_before(int mine, int* scan) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = mine;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, by);
      if (lane >= by) sum += other;
    }
    if (lane == 31) scan[warp] = sum;
    __syncthreads();
    int before = sum - mine;
    total = 0;
    for (int w = 0; w < Config::kWarps; ++w) {
      if (w < warp) before += scan[w];
      total += scan[w];
    }
    __syncthreads();
    return before;
  }

  // One thread's sequences hold `at`: it tells the others which.
  __device__ void find_sequence(int first, int last, int before, int* scan) {
    if (threadIdx.x == 0) scan[0] = p.batch;  // a CTA without blocks
    __syncthreads();
    for (int b = first; b < last && at < end; ++b) {
      const int next = before + blocks_of(b);
      if (at >= before && at < next) {
        scan[0] = b;
        scan[1] = before;
      }
      before = next;
    }
    __syncthreads();
    sequence = scan[0];
    listed = scan[1];
    __syncthreads();
  }

  // The next part of this CTA's; false where there is none.
  __device__ bool next() {
    while (at < end) {
      const Walk<Config> walk(p, cache, sequence);
      int tile = 0, begin = listed, each = tile_blocks(walk, 0);
      while (at >= begin + each * p.head_groups) {
        begin += each * p.head_groups;
        if (++tile == p.row_tiles) break;
        each = tile_blocks(walk, tile);
      }
      if (tile == p.row_tiles) {
        listed = begin;
        ++sequence;
      } else if (take(walk, tile, begin, each)) {
        return true;
      }
    }
    return false;
  }

  // Moves past the tile at `at`: one of the head groups whose tiles of `each` blocks begin at `begin`. False where none
  // of its blocks are this CTA's.
  __device__ bool take(const Walk<Config>& walk, int tile, int begin, int each) {
    const int group = (at - begin) / each, keys_at = begin + group * each + kOverhead, count = each - kOverhead;
    const int from = max(at, keys_at) - keys_at, to = min(end, keys_at + count) - keys_at;
    const bool begins = at == begin + group * each;
    at = min(end, keys_at + count);
    if (count == 0 ? !begins : to <= from) return false;
    place = place_of<Config>(p, tile, sequence * p.head_groups + group);
    first_block = walk.first_block(place.first_row) + from;
    blocks = to - from;
    const int cta = blockIdx.x;
    if (from == 0 && to == count) {
      part = {cta, 0, 1};
    } else {
      const int owner = cta_of(keys_at);
      part = {owner, cta - owner, cta_of(keys_at + count - 1) - owner + 1};
    }
    return true;
  }
};

}  // namespace gqa

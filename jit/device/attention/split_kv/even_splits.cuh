// even_splits.cuh: the blocks of keys of a head group's row tiles as one list, sequence after sequence, cut into equal
// pieces, a CTA each. Lengths are read here, on the device, so that sequences of any lengths keep all CTAs busy alike.
// All head groups have the same list and the same cuts, and CTAs of a piece are neighbours: they pass a key's heads,
// which are neighbours in memory, together (docs/performance/serving.md).
// Owns: the list's order (sequence, row tile, block), this CTA's piece of it, and which parts a tile has.
// Never: holds the list: a prefix sum over the sequences finds the piece's beginning, the rest follows from lengths.
// Threads: all of a CTA together; next() is the same in each.
#pragma once

#include "attention/common/rows.cuh"

namespace gqa {

// Part `number` of `count` of a tile. tile: what the tile's arrival counter and its parts are found by.
struct Part {
  int tile, number, count;

  // Where cuts are even, `tile` is the CTA that has the tile's first part; each next part's is a number of head groups
  // further. A CTA leaves two parts at most: of a tile that others began, and of one that it begins itself.
  __device__ int slot(int which, int head_groups) const {
    return tile + (which == 0 ? static_cast<int>(gridDim.x) : which * head_groups);
  }
};

template <typename Config>
struct EvenSplits {
  static constexpr int kThreads = Config::kWarps * 32;
  // A tile counts for so many blocks more: queries, merge and out. Tiles without keys are in the list by it.
  static constexpr int kOverhead = 1;

  const AttentionParams& p;
  const CacheParams* cache;
  int group, piece;      // this CTA's
  int total, pieces;     // blocks in the list; pieces that have any
  int at, end;           // what is left of this CTA's piece
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
    pieces = min(quotient(gridDim.x, p.by_head_groups), total);
    if constexpr (queries_packed<Config>()) pieces = max(pieces, 1);  // nobody may have queries
    piece = quotient(blockIdx.x, p.by_head_groups);
    group = blockIdx.x - piece * p.head_groups;
    at = cut(piece);
    end = cut(piece + 1);
    find_sequence(first, last, before, scan);
  }

  // The list's first block of a piece.
  __device__ int cut(int number) const {
    return static_cast<int>(static_cast<long long>(total) * min(number, pieces) / pieces);
  }
  // The piece that has the list's block number `block`.
  __device__ int piece_of(int block) const {
    return static_cast<int>((static_cast<long long>(block + 1) * pieces - 1) / total);
  }

  // The row tiles of a sequence. One without queries has a tile of no blocks, which every piece passes over. Loops ask
  // each time: of a number that they keep, the assembler makes other code for windows.
  __device__ int row_tiles(const Walk<Config>& walk) const {
    if constexpr (!queries_packed<Config>()) return p.row_tiles;
    return (walk.queries() * Config::kPack - 1) / Config::kTileM + 1;
  }

  __device__ int tile_blocks(const Walk<Config>& walk, int tile) const {
    if constexpr (queries_packed<Config>())
      if (walk.queries() == 0) return 0;
    return walk.blocks(tile * Config::kTileM) + kOverhead;
  }

  __device__ int blocks_of(int b) const {
    const Walk<Config> walk(p, cache, b);
    int sum = 0;
    for (int tile = 0; tile < row_tiles(walk); ++tile) sum += tile_blocks(walk, tile);
    return sum;
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
      while (at >= begin + each) {
        begin += each;
        if (++tile == row_tiles(walk)) break;
        each = tile_blocks(walk, tile);
      }
      if (tile == row_tiles(walk)) {
        listed = begin;
        ++sequence;
      } else if (take(walk, tile, begin, each)) {
        return true;
      }
    }
    return false;
  }

  // Moves past the tile of `each` blocks that begins at `begin`. False where none of its keys are this CTA's.
  __device__ bool take(const Walk<Config>& walk, int tile, int begin, int each) {
    const int keys_at = begin + kOverhead, count = each - kOverhead;
    const int from = max(at, keys_at) - keys_at, to = min(end, keys_at + count) - keys_at;
    const bool begins = at == begin;
    at = min(end, keys_at + count);
    if (count == 0 ? !begins : to <= from) return false;
    place = place_of<Config>(p, tile, sequence * p.head_groups + group);
    first_block = walk.first_block(place.first_row) + from;
    blocks = to - from;
    if (from == 0 && to == count) {
      part = {static_cast<int>(blockIdx.x), 0, 1};
    } else {
      const int owner = piece_of(keys_at);
      part = {owner * p.head_groups + group, piece - owner, piece_of(keys_at + count - 1) - owner + 1};
    }
    return true;
  }
};

}  // namespace gqa

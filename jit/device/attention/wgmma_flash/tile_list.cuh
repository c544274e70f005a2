// tile_list.cuh: which tiles there are, and where the one of a number lies.
// Owns: TileList, a base of a producer's walk. Where queries are packed, each sequence has as many tiles as its own
// rows fill; they are numbered sequence by sequence, and found by going on from the last one asked for.
// Never: chooses a number: a scheduler does.
// Threads: one producer thread.
#pragma once

#include "attention/common/rows.cuh"

namespace gqa {

// Sequences of one number of queries. Warpgroups' rows that do not exist go before the first: that tile is walked last,
// and under a mask it sees fewest keys.
template <typename Config, bool = queries_packed<Config>()>
struct TileList {
  __device__ static bool has(const AttentionParams& p, int number) { return number < p.tiles; }
  __device__ static Place place(const AttentionParams& p, int number) {
    Place place = tile_place<Config>(p, number);
    place.first_row -= p.rows_before;
    return place;
  }
  // How many there are; of a list that is not walked to its end, more than any number.
  __device__ static int count(const AttentionParams& p, int /*past*/) { return p.tiles; }
};

// Numbers that are asked for only grow.
template <typename Config>
struct TileList<Config, true> {
  static constexpr int kAtOnce = 4;  // lengths asked for together: a list may have thousands

  const CacheParams* cache;
  int sequence = -1;        // of the last tile asked for; past the last one where there was none
  int before = 0, end = 0;  // tiles of the sequences before it, and with it

  __device__ int rows(const AttentionParams& p, int of) const {
    return queries_of<Config>(p, cache, of) * Config::kPack;
  }
  __device__ static int row_tiles(int rows) { return (rows + Config::kTileM - 1) / Config::kTileM; }
  __device__ int tiles(const AttentionParams& p, int of) const {
    return of < p.batch ? row_tiles(rows(p, of)) * p.head_groups : 0;
  }

  __device__ void open_list(const CacheParams* lists) { cache = lists; }

  __device__ bool has(const AttentionParams& p, int number) {
    while (sequence < p.batch && number >= end) {
      int next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) next[i] = tiles(p, sequence + 1 + i);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (sequence == p.batch || number < end) break;
        ++sequence;
        before = end;
        end += next[i];
      }
    }
    return sequence < p.batch;
  }

  // The place of the last number that was there: the order is tile_place()'s within a sequence.
  __device__ Place place(const AttentionParams& p, int number) const {
    const int own_rows = rows(p, sequence), own_tiles = row_tiles(own_rows);
    const u32 inside = number - before, swizzled = p.head_swizzle * own_tiles;
    const int swizzle = inside / swizzled, rest = inside - swizzle * swizzled;
    const int round = quotient(rest, p.by_swizzle);
    Place place;
    place.batch = sequence;
    place.head = (swizzle * p.head_swizzle + rest - round * p.head_swizzle) * Config::kPack;
    place.kv_head = quotient(place.head, p.by_group);
    place.first_row = (own_tiles - 1 - round) * Config::kTileM - (own_tiles * Config::kTileM - own_rows) / 64 * 64;
    return place;
  }

  // Asked by who will go on to number `past`.
  __device__ int count(const AttentionParams& p, int past) { return has(p, past) ? 0x7fffffff : end; }
};

}  // namespace gqa

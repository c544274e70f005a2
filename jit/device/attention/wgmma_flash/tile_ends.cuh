// tile_ends.cuh: how a producer that leaves keys and values to others (page_copies.cuh) learns that they are near a
// tile's end: then it asks for the next tile, no earlier (schedule.cuh).
// Owns: TileEnds, the barrier in shared memory on which they say so, and TileEndsReader, the producer's side.
// Never: in a kernel whose producer loads keys itself: both are empty there.
// Threads: one of those that copy arrives, once a tile; the producer thread waits.
#pragma once

#include "attention/wgmma_flash/pipeline.cuh"

namespace gqa {

template <bool kThere>
struct TileEnds {};
template <>
struct TileEnds<true> {
  Ring<1> ring;  // its full barrier
};

template <bool kThere>
struct TileEndsReader {};
template <>
struct TileEndsReader<true> {
  RingCursor<1> tile_ends;

  __device__ void wait_for_end(const TileEnds<true>& ends) {
    tile_ends.wait_full(ends.ring);
    tile_ends.next();
  }
};

}  // namespace gqa

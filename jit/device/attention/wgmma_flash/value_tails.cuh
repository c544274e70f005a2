// value_tails.cuh: values past a sequence's end become zeros before consumers see them: TMA brings what lies there, a
// neighbour's or nobody's, and 0 x NaN is NaN. Scores past the end are masked, so keys may be anything.
// Owns: ValueTails, the box in shared memory by which a producer names a block that is cut; TailProducer; the loop of
// the warp that zeroes, and passes the block on to the consumers in TMA's place.
// Never: delays a block that is whole, or a consumer. Threads: the producer thread; one warp beside it.
#pragma once

#include "attention/wgmma_flash/pipeline.cuh"
#include "ptx/index.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace gqa {

// A buffer of values, and how many of its rows are a sequence's.
struct Tail {
  int buffer;  // -1: there are no more
  int rows;
};

// Where sequences have no keys of their own, TMA zeroes past the tensor's end, and this is empty.
template <bool kThere>
struct ValueTails {};
template <>
struct ValueTails<true> {
  Ring<1> ring;  // full: the values have landed
  Tail tail;
};

// The producer's side.
template <bool kThere>
struct TailProducer {};
template <>
struct TailProducer<true> {
  RingCursor<1> tails_named;

  // Names the buffer; its values are to land on the barrier that is answered.
  __device__ u32 begin_tail(ValueTails<true>& tails, const Tail& tail) {
    tails_named.wait_empty(tails.ring);
    tails.tail = tail;
    const u32 full = tails_named.full(tails.ring);
    tails_named.next();
    return full;
  }
  __device__ void end_tails(ValueTails<true>& tails) { barrier_arrive(begin_tail(tails, {-1, 0})); }
};

// A warp's loop. `values`: the first buffer, of kBytes each, in panels of kRows rows; `full`: its barrier.
template <int kRows, int kPanels, int kBytes>
__device__ inline void zero_tails(ValueTails<true>& tails, char* values, u32 full) {
  constexpr int kPiece = 16;
  const int lane = lane_index();
#pragma unroll 1
  for (RingCursor<1> cursor;; cursor.next()) {
    cursor.wait_full(tails.ring);
    const volatile Tail& at = tails.tail;
    const int buffer = at.buffer, first = at.rows * kPanelRowBytes;
    if (buffer < 0) return;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel)
#pragma unroll 1
      for (int byte = first + lane * kPiece; byte < kRows * kPanelRowBytes; byte += 32 * kPiece)
        *reinterpret_cast<uint4*>(values + buffer * kBytes + panel * kRows * kPanelRowBytes + byte) =
            make_uint4(0, 0, 0, 0);
    fence_async();  // before wgmma reads
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(full + 8 * buffer);
      barrier_arrive(cursor.empty(tails.ring));
    }
  }
}

}  // namespace gqa

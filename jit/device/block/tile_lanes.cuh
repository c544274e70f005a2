// tile_lanes.cuh: the threads of a block over the elements of a tile.
// Owns: each(), an element a thread; Lanes, a result's elements kept in registers, each shared by 1 to 32 lanes that
// fold parts of it.
// Never: synchronises the block.
// Threads: all threads of the block call together; elements lie in order over them.
#pragma once

#include "block/tile_math.cuh"

namespace gqa {

// Elements 0, kTogether, .. of kElements, one after another to each thread. Their number is known when this is
// compiled, so that few rounds are no loop and what they read is asked for at once.
template <int kThreads, int kElements, int kTogether, typename Visit>
__device__ inline void each_of(Visit visit) {
  constexpr int kRound = kThreads * kTogether, kRounds = (kElements + kRound - 1) / kRound;
  constexpr int kUnroll = kRounds <= 8 ? kRounds : 2;
#pragma unroll kUnroll
  for (int round = 0; round < kRounds; ++round) {
    const int i = round * kRound + static_cast<int>(threadIdx.x) * kTogether;
    if (kElements % kRound == 0 || i < kElements) visit(i);
  }
}

template <int kThreads, int kElements, typename Visit>
__device__ inline void each(Visit visit) {
  each_of<kThreads, kElements, 1>(visit);
}

// kWidth neighbouring lanes share an element.
template <typename Fold, int kThreads, int kElements, int kWidth>
struct Lanes {
  static constexpr int kShare = (kElements * kWidth + kThreads - 1) / kThreads;
  float value[kShare];

  __device__ void clear() {
#pragma unroll
    for (int k = 0; k < kShare; ++k) value[k] = Fold::neutral();
  }

  // visit(element, lane of those that share it, what this lane has).
  template <typename Visit>
  __device__ void each(Visit visit) {
#pragma unroll
    for (int k = 0; k < kShare; ++k) {
      const int at = k * kThreads + static_cast<int>(threadIdx.x);
      if (at / kWidth < kElements) visit(at / kWidth, at % kWidth, value[k]);
    }
  }

  // write(element, the whole of it), by one lane each.
  template <typename Write>
  __device__ void finish(Write write) {
#pragma unroll
    for (int k = 0; k < kShare; ++k) {
      float whole = value[k];
#pragma unroll
      for (int offset = kWidth / 2; offset > 0; offset /= 2)
        whole = Fold::join(whole, __shfl_xor_sync(0xffffffff, whole, offset));
      const int at = k * kThreads + static_cast<int>(threadIdx.x);
      if (at % kWidth == 0 && at / kWidth < kElements) write(at / kWidth, whole);
    }
  }
};

// A row that a warp folds; all its lanes have the result.
template <typename Fold, typename Term>
__device__ inline float fold_by_warp(int size, Term term) {
  float whole = fold<Fold>(static_cast<int>(threadIdx.x) % 32, size, 32, term);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) whole = Fold::join(whole, __shfl_xor_sync(0xffffffff, whole, offset));
  return whole;
}

}  // namespace gqa

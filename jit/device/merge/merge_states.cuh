// merge_states.cuh: the kernel that merges attention's results on disjoint keys.
// Owns: the sums of a row's parts, weighed by exp(lse), in float32, by the lanes of a warp that share the row; its
// loads and stores; the log-sum-exp of all.
// Never: reads out of a part whose lse is infinite, the mark of an empty one: what lies there may be anything.
// Threads: 128 a CTA; MergeParams::lanes a row. They read the parts' lse before one of them writes the merged one, and
// each element is read and written by one lane: the merged state may be one of the parts.
#pragma once

#include "merge/merge_params.h"
#include "ptx/element.cuh"
#include "ptx/grid_dependency.cuh"

namespace gqa {

// One of MergeParams::rows.
struct MergeRow {
  int batch, position, head;
  __device__ MergeRow(const MergeParams& p, u32 row) {
    const u32 token = row / p.heads;
    head = row - token * p.heads;
    batch = token / p.q_len;
    position = token - batch * p.q_len;
  }
  __device__ long long offset(const TensorStrides& s) const {
    return batch * s.batch + position * s.row + head * s.head;
  }
  __device__ float* lse_at(const MergePart& part) const { return part.lse + offset(part.lse_strides); }
  // A part's lse, -inf where it is empty; others mark an empty one with +inf.
  __device__ float lse(const MergePart& part) const {
    const float lse = *lse_at(part);
    return lse == -negative_infinity() ? negative_infinity() : lse;
  }
};

// The largest lse of a row's parts, and the sum of their exponentials under it; 0 where every part is empty.
struct MergeWeights {
  float maximum, sum;
  __device__ MergeWeights(const MergeParams& p, const MergeRow& row) : maximum(negative_infinity()), sum(0) {
    for (int i = 0; i < p.count; ++i) maximum = fmaxf(maximum, row.lse(p.parts[i]));
    for (int i = 0; i < p.count; ++i) sum += of(row.lse(p.parts[i]));
  }
  // NaN, where lse is that.
  __device__ float of(float lse) const { return lse == negative_infinity() ? 0.f : expf(lse - maximum); }
  __device__ float lse() const { return sum == 0 ? negative_infinity() : maximum + logf(sum); }
};

template <typename Element>
__device__ void load_chunk(const typename Element::Bits* from, int count, bool vectors, float (&x)[kMergeChunk]) {
  constexpr int kInWord = 4 / sizeof(typename Element::Bits), kPieces = kMergeChunk / kInWord / 4;
  if (!vectors) {
#pragma unroll
    for (int i = 0; i < kMergeChunk; ++i) x[i] = i < count ? Element::to_float(from[i]) : 0.f;
    return;
  }
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const uint4 four = reinterpret_cast<const uint4*>(from)[piece];
    const u32 words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4 * kInWord; ++i)
      x[piece * 4 * kInWord + i] =
          Element::to_float(static_cast<typename Element::Bits>(words[i / kInWord] >> (i % kInWord * 16)));
  }
}

__device__ inline void pack_chunk(F32, const float (&x)[kMergeChunk], u32 (&words)[kMergeChunk]) {
#pragma unroll
  for (int i = 0; i < kMergeChunk; ++i) words[i] = __float_as_uint(x[i]);
}
template <typename Half>
__device__ void pack_chunk(Half, const float (&x)[kMergeChunk], u32 (&words)[kMergeChunk / 2]) {
#pragma unroll
  for (int i = 0; i < kMergeChunk / 2; ++i) words[i] = Half::pack(x[2 * i], x[2 * i + 1]);
}

template <typename Element>
__device__ void store_chunk(const float (&x)[kMergeChunk], int count, bool vectors, typename Element::Bits* to) {
  constexpr int kInWord = 4 / sizeof(typename Element::Bits), kWords = kMergeChunk / kInWord;
  u32 words[kWords];
  pack_chunk(Element(), x, words);
  if (vectors) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4)
      reinterpret_cast<uint4*>(to)[i / 4] = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kMergeChunk; ++i)
    if (i < count) to[i] = static_cast<typename Element::Bits>(words[i / kInWord] >> (i % kInWord * 16));
}

template <typename Element>
__device__ void merge_row(const MergeParams& p, const MergeRow& row, const MergeWeights& weights, int lane) {
  using Bits = typename Element::Bits;
  const float share = 1 / weights.sum;  // of no part, where that is 0
  for (int at = lane * kMergeChunk; at < p.head_dim; at += p.lanes * kMergeChunk) {
    float sums[kMergeChunk] = {};
    for (int i = 0; i < p.count; ++i) {
      const MergePart& part = p.parts[i];
      const float lse = row.lse(part);
      if (lse == negative_infinity()) continue;
      const float weight = weights.of(lse) * share;  // their sum is 1, so that no sum is larger than its parts
      float x[kMergeChunk];
      load_chunk<Element>(static_cast<const Bits*>(part.out) + row.offset(part.out_strides) + at, p.head_dim - at,
                          p.vectors, x);
#pragma unroll
      for (int d = 0; d < kMergeChunk; ++d) sums[d] = fmaf(weight, x[d], sums[d]);
    }
    store_chunk<Element>(sums, p.head_dim - at, p.vectors,
                         static_cast<Bits*>(p.merged.out) + row.offset(p.merged.out_strides) + at);
  }
}

}  // namespace gqa

extern "C" __global__ void __launch_bounds__(gqa::kMergeThreads)
    gqa_merge_states(const __grid_constant__ gqa::MergeParams p) {
  using namespace gqa;
  wait_for_grids_before();
  const int lane = threadIdx.x % p.lanes;
  const u32 number = blockIdx.x * (kMergeThreads / p.lanes) + threadIdx.x / p.lanes;
  const bool exists = number < p.rows;
  const MergeRow row(p, exists ? number : 0);
  const MergeWeights weights(p, row);
  const auto type = static_cast<ElementType>(p.type);
  if (exists && type == ElementType::kF32) merge_row<F32>(p, row, weights, lane);
  if (exists && type == ElementType::kBF16) merge_row<BF16>(p, row, weights, lane);
  if (exists && type == ElementType::kF16) merge_row<F16>(p, row, weights, lane);
  __syncwarp();
  if (exists && lane == 0) *row.lse_at(p.merged) = weights.lse();
}

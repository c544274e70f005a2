// warpgroup_share.cuh: two warpgroups that share the keys of the same 64 rows become one.
// Owns: the handover of the second's out and state to the first, through shared memory.
// Never: walks keys or stores rows.
// Threads: both warpgroups; a thread of the second hands over to the one in its place in the first, whose fragments
// are of the same rows and columns.
#pragma once

#include "attention/wgmma_flash/warpgroup_attention.cuh"

namespace gqa {

// A thread's part of out, and last its rows' maxima and sums, a float4 every kWarpgroup. Where products sum, the sums
// are a part of out.
template <typename Config>
__device__ inline void leave_part(const WarpgroupAttention<Config>& core, float4* to) {
  constexpr int kOuts = WarpgroupAttention<Config>::kAllOuts;
#pragma unroll
  for (int n = 0; n < kOuts; ++n)
    to[n * kWarpgroup] = make_float4(core.out[n][0], core.out[n][1], core.out[n][2], core.out[n][3]);
  to[kOuts * kWarpgroup] =
      make_float4(core.state.maximum[0], core.state.maximum[1], core.state.sum[0], core.state.sum[1]);
}

// Two parts of a row's keys under the larger of their maxima; load(n): the n-th float4 of what the other left.
template <typename Config, typename Load>
__device__ inline void merge_part(WarpgroupAttention<Config>& core, float scale_log2, Load load) {
  constexpr int kOuts = WarpgroupAttention<Config>::kAllOuts;
  const float4 other = load(kOuts);
  const float maximum[2] = {other.x, other.y}, sum[2] = {other.z, other.w};
  float mine[2], theirs[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    mine[h] = core.state.raise(maximum[h], h, scale_log2);
    theirs[h] = rescale_factor(maximum[h], core.state.maximum[h], scale_log2);
    core.state.sum[h] = core.state.sum[h] * mine[h] + sum[h] * theirs[h];
  }
#pragma unroll
  for (int n = 0; n < kOuts; ++n) {
    const float4 row = load(n);
    core.out[n][0] = core.out[n][0] * mine[0] + row.x * theirs[0];
    core.out[n][1] = core.out[n][1] * mine[0] + row.y * theirs[0];
    core.out[n][2] = core.out[n][2] * mine[1] + row.z * theirs[1];
    core.out[n][3] = core.out[n][3] * mine[1] + row.w * theirs[1];
  }
}

template <typename Config>
struct KeyShare {
  using Core = WarpgroupAttention<Config>;

  float4* part;  // as leave_part() leaves it
  const Ring<1>& ring;
  RingCursor<1> cursor;

  // `tile`: of the CTA's, counted from 0.
  __device__ KeyShare(WarpgroupSmem<Config>& smem, u32 tile)
      : part(reinterpret_cast<float4*>(smem.out + WarpgroupSmem<Config>::kOutBytes) + thread_index() % kWarpgroup),
        ring(smem.handover),
        cursor{tile} {}

  // The second: until the first has taken over the tile before.
  __device__ void wait_taken() const { cursor.wait_empty(ring); }

  // After wait_taken().
  __device__ void hand_over(const Core& core) const {
    leave_part<Config>(core, part);
    barrier_arrive(cursor.full(ring));
  }

  // Both parts.
  __device__ void take_over(Core& core, float scale_log2) const {
    cursor.wait_full(ring);
    merge_part<Config>(core, scale_log2, [&](int n) { return part[n * kWarpgroup]; });
    barrier_arrive(cursor.empty(ring));
  }
};

}  // namespace gqa

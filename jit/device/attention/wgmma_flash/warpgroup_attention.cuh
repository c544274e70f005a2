// warpgroup_attention.cuh: the attention core of one warpgroup: the two products of its 64 query rows with kTileN keys
// a step, by wgmma, around their softmax: scores = q k^T, out += weights v. Rabe & Staats 2021; Shah et al.,
// "FlashAttention-3", 2024.
// Owns: the operands' order, and the columns of Q in registers. The products run asynchronously; who
// calls decides what runs under what.
// Never: waits for memory; warpgroup_consumer.cuh does.
// Threads: the 128 threads of a warpgroup; a quad of lanes holds a row, as in warp_attention.cuh.
#pragma once

#include "attention/wgmma_flash/tile_sequence.cuh"
#include "attention/wgmma_flash/warpgroup_smem.cuh"
#include "attention/wgmma_flash/warpgroup_softmax.cuh"
#include "ptx/mma.cuh"
#include "ptx/warpgroup.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupAttention : WarpgroupSoftmax<Config>, ChainNumbers<Config>, ConsumerSequence<Config> {
  using Smem = WarpgroupSmem<Config>;
  using Softmax = WarpgroupSoftmax<Config>;
  using Softmax::kOnesColumn;
  using Softmax::out;
  static constexpr int kDepth = Config::kHeadDim / 16;  // products that make scores
  static constexpr int kQRegs = q_regs<Config>();
  static_assert(kQRegs <= kDepth, "Q has no more columns");

  Fragment q_fragments[kQRegs == 0 ? 1 : kQRegs];  // Q's first columns, which shared memory need not deliver

  // A tile's queries have come; `queries`: as for begin_scores().
  __device__ void load_q_regs(u32 queries) {
    const int lane = lane_index(), warp = thread_index() % kWarpgroup / 32;
    const u32 row = queries + (warp * 16 + lane % 16) * kPanelRowBytes;
#pragma unroll
    for (int d = 0; d < kQRegs; ++d) {
      const int piece = (d % 4 * 2 + lane / 16) ^ (lane % 8);  // the 128-byte swizzle, as in epilogue.cuh
      q_fragments[d] = ldmatrix(row + d / 4 * Smem::kQueryPanel + piece * 16);
    }
  }

  __device__ static u64 key_operand(u32 keys) { return operand(keys, Smem::kKeysTransposed ? Smem::kKeyPanel : 0); }

  // The d-th 16 columns of keys. Transposed, they are read as the second product reads the values: rows of the inner
  // dimension.
  __device__ static u64 key_columns(u64 k, int d) {
    return advance(k, Smem::kKeysTransposed ? d * 16 * kPanelRowBytes : d / 4 * Smem::kKeyPanel + d % 4 * 32);
  }

  // The d-th 16 columns of queries. Where products sum, reckoned in the low word: 5 % of a loop's instructions, since
  // the assembler then keeps less (docs/performance.md).
  __device__ static u64 query_columns(u64 q, int d) {
    const u32 bytes = d / 4 * Smem::kQueryPanel + d % 4 * 32;
    return kOnesColumn ? advance_low(q, bytes) : advance(q, bytes);
  }

  // The d-th product that makes the scores; `more`: of what they hold.
  template <int kFragments>
  __device__ void multiply_scores(float (&scores)[kFragments][4], u64 q, u64 k, int d, bool more) const {
    using Product = ScoresOf<Config, kFragments * 8>;
    if constexpr (kQRegs > 0)
      if (d < kQRegs) return Product::multiply(scores, q_fragments[d].r, key_columns(k, d), more);
    Product::multiply(scores, query_columns(q, d), key_columns(k, d), more);
  }

  // scores = q k^T, begun. Operands: this warpgroup's first query row, and the keys'.
  template <int kFragments>
  __device__ void begin_scores(float (&scores)[kFragments][4], u64 q, u64 k) {
    pin(scores);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) multiply_scores(scores, q, k, d, d != 0);
    wgmma_commit();
  }

  // 16 keys further in the values; the ones are the same for all.
  __device__ static u64 value_rows(u64 values, int k) {
    const u32 bytes = k * 16 * kPanelRowBytes;
    return kOnesColumn ? advance_first_panel(values, bytes) : advance(values, bytes);
  }

  // out += weights v, begun; `values`: the operand.
  template <int kProducts>
  __device__ void begin_values(const u32 (&weights)[kProducts][4], u64 values) {
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kProducts; ++k) Config::Values::multiply(out, weights[k], value_rows(values, k), true);
    wgmma_commit();
  }

  // Both begun as one group, by turns: the assembler spreads them among the arithmetic that follows.
  template <int kFragments, int kProducts>
  __device__ void begin_both(float (&scores)[kFragments][4], u64 q, u64 k, const u32 (&weights)[kProducts][4],
                             u64 values) {
    pin(scores);
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < (kDepth > kProducts ? kDepth : kProducts); ++i) {
      if (i < kDepth) multiply_scores(scores, q, k, i, i != 0);
      if (i < kProducts) Config::Values::multiply(out, weights[i], value_rows(values, i), true);
    }
    wgmma_commit();
  }

  // Scores whose products have ended, through the chain where there is one.
  template <int kFragments>
  __device__ void take_scores(float (&scores)[kFragments][4]) const {
    pin(scores);
    apply_chain<Config>(scores, this->numbers());
  }

  // Until at most kPending of the products begun are still running.
  template <int kPending, int kFragments>
  __device__ void wait_scores(float (&scores)[kFragments][4]) {
    wgmma_wait<kPending>();
    take_scores(scores);
  }
  template <int kPending>
  __device__ void wait_values() {
    wgmma_wait<kPending>();
    pin(out);
  }
};

}  // namespace gqa

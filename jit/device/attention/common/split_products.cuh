// split_products.cuh: the two products of a warp's rows, of float32 elements on tensor cores: each element is two terms
// of tf32, and a product the sum of the terms' products. Ootomo & Yokota, "Recovering single precision accuracy from
// Tensor Cores while surpassing the FP32 theoretical peak performance", 2022, for the terms, and for sums that leave
// the tensor core before they grow. Owns: the terms, which products of them there are, how many of a row's products the
// tensor core adds up by itself. Never: touches global memory, waits, or knows a mask. Threads: one warp; nothing is
// shared between warps.
#pragma once

#include "attention/common/warp_products.cuh"

namespace gqa {

// x = high + low, but for 2^-23 of it. The largest finite numbers' high term is not infinite.
struct Terms {
  u32 high, low;

  // Half of tf32's last place is added, and what is behind it cut off.
  static __device__ u32 rounded(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

  __device__ Terms() {}
  __device__ explicit Terms(float x) {
    constexpr float kLargest = 0x1.ffcp127f;  // of tf32
    const float rounded_to = fmaxf(fminf(bits_to_float(rounded(x)), kLargest), -kLargest);
    high = __float_as_uint(rounded_to);
    low = rounded(x - rounded_to);
  }
};

// A's and B's fragments of m16n8k8.
struct SplitA {
  u32 high[4], low[4];
  __device__ void set(int i, float x) {
    const Terms terms(x);
    high[i] = terms.high;
    low[i] = terms.low;
  }
};
struct SplitB {
  Terms of[2];
  __device__ SplitB(float first, float second) : of{Terms(first), Terms(second)} {}
};

// d = a b + c, smaller products first. kTerms: how many there are.
template <int kTerms>
__device__ inline void mma_split(float (&d)[4], const SplitA& a, const SplitB& b, const float (&c)[4]) {
  if constexpr (kTerms >= 3) {
    mma_tf32(d, a.low, b.of[0].high, b.of[1].high, c);
    mma_tf32(d, a.high, b.of[0].low, b.of[1].low, d);
    mma_tf32(d, a.high, b.of[0].high, b.of[1].high, d);
  } else if constexpr (kTerms == 2) {
    mma_tf32(d, a.high, b.of[0].low, b.of[1].low, c);
    mma_tf32(d, a.high, b.of[0].high, b.of[1].high, d);
  } else {
    mma_tf32(d, a.high, b.of[0].high, b.of[1].high, c);
  }
}

template <typename Config, int kFragments>
struct WarpProducts<Config, kFragments, true> {
  static constexpr int kTerms = terms<Config>();
  static constexpr int kScores = Config::kTileN / 8;
  static constexpr int kOuts = Config::kHeadDimV / 8;
  static constexpr int kQPitch = row_pitch<u32>(Config::kHeadDim);
  static constexpr int kVPitch = row_pitch<u32>(Config::kHeadDimV);
  static constexpr int kChain = 2;  // steps of eight keys that the tensor core adds up

  static_assert(kIsSame<typename Config::Q, F32> && kIsSame<typename Config::Kv, F32>, "terms are of float32");

  static __device__ void add(float (&sum)[4], const float (&part)[4]) {
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[c] += part[c];
  }

  // scores += q k^T, a step of eight elements after the other.
  static __device__ void add_keys(float (&scores)[kFragments][kScores][4], u32 q_rows, u32 keys) {
    const u32 q_lane = q_rows + lane_offset_rows_first(kQPitch);
    const u32 k_lane = KeyTile<Config>::lane(keys);
#pragma unroll 4
    for (int d = 0; d < Config::kHeadDim / 8; ++d) {
      SplitA q[kFragments];
#pragma unroll
      for (int m = 0; m < kFragments; ++m) {
        const Fragment f = ldmatrix(q_lane + m * 16 * kQPitch + d * 32);
#pragma unroll
        for (int i = 0; i < 4; ++i) q[m].set(i, bits_to_float(f.r[i]));
      }
#pragma unroll
      for (int n = 0; n < kScores / 2; ++n) {
        const Fragment k = KeyTile<Config>::fragment(k_lane, n, d);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const SplitB b(bits_to_float(k.r[2 * h]), bits_to_float(k.r[2 * h + 1]));
#pragma unroll
          for (int m = 0; m < kFragments; ++m) {
            float part[4];
            mma_split<kTerms>(part, q[m], b, {0, 0, 0, 0});
            add(scores[m][2 * n + h], part);
          }
        }
      }
    }
  }

  // out += p v. The unit's k-th and (k + 4)-th key are 2 k and 2 k + 1 of eight: a lane's accumulators are then its
  // part of A, and its elements of B lie in different banks.
  static __device__ void add_values(float (&out)[kFragments][kOuts][4], const float (&scores)[kFragments][kScores][4],
                                    u32 values) {
    const int lane = lane_index();
    const u32 v_lane = values + lane % 4 * 2 * kVPitch + lane / 4 * 4;
#pragma unroll
    for (int first = 0; first < kScores; first += kChain) {
      SplitA p[kFragments][kChain];
#pragma unroll
      for (int m = 0; m < kFragments; ++m)
#pragma unroll
        for (int k = 0; k < kChain; ++k)
#pragma unroll
          for (int i = 0; i < 4; ++i) p[m][k].set(i, scores[m][first + k][i % 2 * 2 + i / 2]);
#pragma unroll
      for (int n = 0; n < kOuts; ++n) {
        float part[kFragments][4] = {};
#pragma unroll
        for (int k = 0; k < kChain; ++k) {
          const u32 at = v_lane + (first + k) * 8 * kVPitch + n * 32;
          const SplitB v(load_shared(at), load_shared(at + kVPitch));
#pragma unroll
          for (int m = 0; m < kFragments; ++m) mma_split<kTerms>(part[m], p[m][k], v, part[m]);
        }
#pragma unroll
        for (int m = 0; m < kFragments; ++m) add(out[m][n], part[m]);
      }
    }
  }
};

}  // namespace gqa

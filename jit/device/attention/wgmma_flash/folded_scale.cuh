// folded_scale.cuh: the scale folded into Q, and -max as a rank-1 MMA, so that scores leave the tensor cores as
// exponents to the base two: a tile's Q is multiplied by the scale, and one more MMA, of the rows' offsets with ones,
// subtracts what exponents are relative to. That saves an FMA a score. Owns: Q's scaling and its undoing, and that
// MMA's operands: a row's offset as the sum of float16, and ones. Never: knows maxima; warpgroup_softmax.cuh does.
// Threads: the 128 threads of a warpgroup.
#pragma once

#include "attention/wgmma_flash/exp2_fma.cuh"
#include "attention/wgmma_flash/warpgroup_hints.cuh"
#include "attention/wgmma_flash/warpgroup_smem.cuh"
#include "ptx/tma.cuh"
#include "ptx/warpgroup.cuh"

namespace gqa {

// What scores are to be multiplied with to be powers of two.
template <typename Config>
__device__ inline float score_scale(const AttentionParams& p) {
  return folded_scale<Config>() ? 1.f : p.scale_log2;
}

// What scores begin with: nothing.
struct NoOffsets {
  static constexpr bool kBegins = false;
  template <typename Product, int kFragments>
  __device__ void begin(float (&)[kFragments][4]) const {}
};

// Or their rows' offsets, by a rank-1 MMA; its operands.
struct OffsetProduct {
  static constexpr bool kBegins = true;
  u64 offsets, ones;

  template <typename Product, int kFragments>
  __device__ void begin(float (&scores)[kFragments][4]) const {
    Product::multiply(scores, offsets, ones, false);
  }
};

// The offsets of a warpgroup's 64 rows in shared memory: of each half, as the products take them twice.
struct RowOffsets {
  static constexpr int kRowBytes = 16, kBytes = 64 * kRowBytes;

  char* first;  // row's

  // The ones' first 8 rows stand for those of any number of keys.
  __device__ OffsetProduct product(u32 ones) const {
    return {plain_operand(shared_address(first), 0, 8 * kRowBytes), plain_operand(ones, 0, 0)};
  }

  // This lane's two rows of its warp's 16, for the products after a barrier. What is no number, or none of float16's,
  // makes none of its row's weights.
  __device__ void write(float low, float high) const {
    if (lane_index() % 4 == 0) {
      char* const row = first + (thread_index() % kWarpgroup / 32 * 16 + lane_index() / 4) * kRowBytes;
      write_row(row, low / 2);
      write_row(row + 8 * kRowBytes, high / 2);
    }
    fence_async();
  }

 private:
  // The nearest number and the nearest to what that leaves over: 22 bits.
  static __device__ void write_row(char* row, float offset) {
    const float nearest = F16::to_float(static_cast<u16>(F16::pack(offset, 0)));
    *reinterpret_cast<uint4*>(row) = make_uint4(F16::pack(nearest, offset - nearest), 0, 0, 0);
  }
};

// Two elements of Q times the scale, which is the sum of two numbers, so that they are rounded about once.
class QueryScale {
 public:
  __device__ explicit QueryScale(float scale) : high_(F16::pack(scale, scale)) {
    const float rest = scale - F16::to_float(static_cast<u16>(high_));
    low_ = F16::pack(rest, rest);
  }
  __device__ u32 operator()(u32 pair) const { return Pair<F16>::fma(pair, high_, Pair<F16>::multiply(pair, low_)); }
  __device__ uint4 operator()(const uint4& eight) const {
    return make_uint4((*this)(eight.x), (*this)(eight.y), (*this)(eight.z), (*this)(eight.w));
  }

 private:
  u32 high_, low_;
};

// A warpgroup's 64 rows of a tile's queries in shared memory, panel after panel.
template <typename Config>
class QueryRows {
 public:
  static_assert(kIsSame<typename Config::Q, F16>, "bfloat16 has no bit to spare for the scale");

  // `barrier`: the warpgroup's own.
  __device__ QueryRows(char* first, int barrier) : first_(first), barrier_(barrier) {}

  // Multiplies them by the scale. False, and none is multiplied, where one would become too large, or they would lose
  // bits to a scale too small; the same for all threads.
  __device__ bool scale(float scale) const {
    if (scale < kLeast || scale > kMost) return false;
    const QueryScale scaled(scale);
    if (scale > 1 && !told_agreed<Config>(named_all(barrier_, kWarpgroup, stay_finite(scaled)))) return false;
    each([&](uint4* at, int) { *at = scaled(*at); });
    show();
    return true;
  }

  // As they were, from packed row first_row on, below 0 where none exist; no product may still read them.
  __device__ void load(const AttentionParams& p, const Place& place, int first_row) const {
    const QBits<Config>* const head =
        static_cast<const QBits<Config>*>(p.q) + place_offset(p.q_strides, place.batch, place.head);
    each([&](uint4* at, int piece) {
      const int in_panel = piece % kPiecesAPanel, row = first_row + in_panel / 8;
      // Swizzled by 128 bytes, as in epilogue.cuh.
      const int column = piece / kPiecesAPanel * kPanelColumns + (in_panel % 8 ^ in_panel / 8 % 8) * 8;
      const bool exists = row >= 0 && row_exists<Config>(p, row) && column < Config::kHeadDim;
      const QBits<Config>* const from = head + row_offset<Config>(p.q_strides, row) + column;
      *at = exists ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
    });
    show();
  }

 private:
  static constexpr float kLeast = 1.f / 1024, kMost = 32768;
  static constexpr int kPiecesAPanel = 64 * kPanelRowBytes / 16;

  // The highest exponent's carry out of either half.
  static __device__ u32 carries(u32 pair) { return ((pair & 0x7fff7fff) + 0x04000400) & 0x80008000; }

  __device__ bool stay_finite(const QueryScale& scaled) const {
    u32 carried = 0;
    each([&](const uint4* at, int) {
      const uint4 to = scaled(*at);
      carried |= carries(to.x) | carries(to.y) | carries(to.z) | carries(to.w);
    });
    return carried == 0;
  }

  // Each of this thread's pieces of 16 bytes, and its number. Not unrolled: that would cost the walk registers.
  template <typename Do>
  __device__ void each(Do with) const {
#pragma unroll 1
    for (int i = thread_index() % kWarpgroup; i < panels(Config::kHeadDim) * kPiecesAPanel; i += kWarpgroup)
      with(reinterpret_cast<uint4*>(first_ + i / kPiecesAPanel * WarpgroupSmem<Config>::kQueryPanel +
                                    i % kPiecesAPanel * 16),
           i);
  }

  // To the products of all four warps.
  __device__ void show() const {
    fence_async();
    named_sync(barrier_, kWarpgroup);
  }

  char* const first_;
  const int barrier_;
};

}  // namespace gqa

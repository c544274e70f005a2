// accuracy_kernels.h: what the accuracy tests run on the device beside the kernels that they judge.
// Owns: the source of normal inputs of any deviation; of float64 attention, and FlashAttention-2's stand-in beside it:
// blocks of keys from the last down under a running maximum, float32, weights rounded to the element for the second
// product, the sum of unrounded ones, out rounded; of float32 nothing is rounded to less (its errors are
// FlashAttention-2's, in norm within 3 %: tests/python/test_stand_in.py); of a row's error. Never: judges. Threads: 128
// a CTA, a CTA a row.
#pragma once

namespace gqa::test {

inline constexpr const char* kAccuracySource = R"(#include "check/check.cuh"

namespace gqa {

// Box and Muller, "A note on the generation of random normal deviates", 1958.
__device__ inline float normal(u64 index) {
  const u64 bits = mix(index);
  const float first = (static_cast<float>(bits >> 40) + 0.5f) / 16777216.f;
  const float second = static_cast<float>((bits >> 16) & 0xffffff) / 16777216.f;
  return sqrtf(-2.f * logf(first)) * cosf(6.283185307f * second);
}

struct Dots {
  double exact;
  float single;
};

__device__ inline Dots dots(const float* query, const void* keys, long long key, int head_dim, ElementType type) {
  return {dot<double>(query, keys, key, head_dim, type, true), dot<float>(query, keys, key, head_dim, type, true)};
}

template <typename T>
__device__ inline T sum_of(T a, T b) {
  return a + b;
}
}  // namespace gqa

extern "C" __global__ void gqa_normal(void* data, long long count, unsigned long long seed, float deviation,
                                      int type) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float x = gqa::normal(seed * 0x100000001ull + i) * deviation;
    gqa::store_element(data, i, static_cast<gqa::ElementType>(type), x);
  }
}

// Each checked row's out and log-sum-exp in float64, and out as FlashAttention-2 has it.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_exact(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c,
              const __grid_constant__ gqa::CacheParams cache, double* out, double* lse, void* stand_in) {
  using namespace gqa;
  __shared__ float query[256], weights[kCheckThreads], floats[kCheckThreads];
  __shared__ double exact_weights[kCheckThreads], doubles[kCheckThreads];
  const auto type = static_cast<ElementType>(c.type);
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const CheckedKeys keys(p, c, cache, row);
  for (int d = threadIdx.x; d < c.head_dim; d += kCheckThreads)
    query[d] = load_element(p.q, row.offset(p.q_strides) + d, type);
  __syncthreads();
  double highest = -1e300;
  for (int key = keys.first + threadIdx.x; key < keys.end; key += kCheckThreads)
    highest = higher_of(highest, dots(query, p.k, keys.k(key), c.head_dim, type).exact);
  highest = block_reduce(highest, doubles, higher_of<double>) * c.scale;
  double sum = 0, total[2] = {0, 0};
  float sum_single = 0, total_single[2] = {0, 0}, running = negative_infinity();
  const int block = c.head_dim <= 64 ? 128 : 64;  // FlashAttention-2's, which it takes from the last down
  const int last = keys.end > keys.first ? (keys.end - 1) / block * block : -block;
  for (int first = last; first > keys.first - block; first -= block) {
    const int key = first + threadIdx.x;
    const bool there = threadIdx.x < block && key >= keys.first && key < keys.end;
    const Dots dot = there ? dots(query, p.k, keys.k(key), c.head_dim, type) : Dots{0, negative_infinity()};
    const float before = running;
    running = fmaxf(running, block_reduce(dot.single, floats, higher_of<float>));
    const float shift = __fmul_rn(running, p.scale_log2);
    const float rescale = exp2f(__fmul_rn(before, p.scale_log2) - shift);
    const float single = there ? exp2f(fmaf(dot.single, p.scale_log2, -shift)) : 0.f;
    sum += exact_weights[threadIdx.x] = there ? exp(dot.exact * c.scale - highest) : 0;
    sum_single = sum_single * rescale + single;
    weights[threadIdx.x] = rounded(single, type);
    __syncthreads();
    const int count = min(block, keys.end - first);
    for (int half = 0; half < 2; ++half) {
      const int d = threadIdx.x + half * kCheckThreads;
      if (d >= c.head_dim_v) break;
      total_single[half] *= rescale;
      for (int i = max(0, keys.first - first); i < count; ++i) {
        const float value = load_element(p.v, keys.v(first + i) + d, type);
        total[half] += exact_weights[i] * static_cast<double>(value);
        total_single[half] = fmaf(weights[i], value, total_single[half]);
      }
    }
  }
  sum = block_reduce(sum, doubles, sum_of<double>);
  sum_single = block_reduce(sum_single, floats, sum_of<float>);
  for (int half = 0; half < 2; ++half) {
    const int d = threadIdx.x + half * kCheckThreads;
    if (d >= c.head_dim_v) break;
    const long long at = static_cast<long long>(blockIdx.x) * c.head_dim_v + d;
    out[at] = sum > 0 ? total[half] / sum : 0;
    const float single = sum_single > 0 ? total_single[half] / sum_single : 0.f;
    store_element(stand_in, at, type, single);
  }
  if (threadIdx.x == 0) lse[blockIdx.x] = sum > 0 ? highest + log(sum) : static_cast<double>(negative_infinity());
}

// Three numbers of each checked row: the sum of squares of out's errors, the largest of them, and the error of
// log-sum-exp as a share of what is allowed: 1e-6 of it, or 2e-6. stand_in: is judged in out's place, where given.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_row_errors(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c,
                   const double* out, const double* lse, const void* stand_in, double* errors) {
  using namespace gqa;
  __shared__ double doubles[kCheckThreads];
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const long long first = static_cast<long long>(blockIdx.x) * c.head_dim_v;
  const void* given = stand_in != nullptr ? stand_in : p.out;
  const long long from = stand_in != nullptr ? first : row.offset(p.out_strides);
  double squares = 0, worst = 0;
  for (int d = threadIdx.x; d < c.head_dim_v; d += kCheckThreads) {
    double error = fabs(static_cast<double>(load_element(given, from + d, static_cast<ElementType>(c.type))) - out[first + d]);
    if (!(error < 1e30)) error = 1e30;  // NaN or infinite
    squares += error * error;
    worst = higher_of(worst, error);
  }
  squares = block_reduce(squares, doubles, sum_of<double>);
  worst = block_reduce(worst, doubles, higher_of<double>);
  if (threadIdx.x != 0) return;
  errors[3 * blockIdx.x] = squares;
  errors[3 * blockIdx.x + 1] = worst;
  double share = 0;
  if (stand_in == nullptr && p.lse != nullptr) {
    const double mine = p.lse[row.offset(p.lse_strides)], exact = lse[blockIdx.x];
    share = mine == exact ? 0 : fabs(mine - exact) / higher_of(1e-6 * fabs(exact), 2e-6);
    if (!(share < 1e30)) share = 1e30;
  }
  errors[3 * blockIdx.x + 2] = share;
}
)";

}  // namespace gqa::test

// check.cuh: the kernels that verify and time: random inputs, the naive reference, comparison, clock.
// Owns: a plain float32 attention, two passes over the keys, one CTA a row, and beside it FlashAttention-2's stand-in:
// the same, with weights rounded to 16 bits for the second product and the output rounded. Its error is the yardstick.
// Never: shares code with the kernels it judges, except element conversions.
// Threads: 128 a CTA; results are combined by atomics on a CheckResult.
#pragma once

#include "check/check_chain.cuh"
#include "check/check_params.h"
#include "check/trial_inputs.h"
#include "ptx/element.cuh"

namespace gqa {

constexpr int kCheckThreads = 128;

__device__ inline float load_element(const u16* at, bool bf16) {
  return bf16 ? BF16::to_float(*at) : F16::to_float(*at);
}

__device__ inline float rounded(float x, bool bf16) {
  const u16 bits = static_cast<u16>(bf16 ? BF16::pack(x, 0.f) : F16::pack(x, 0.f));
  return load_element(&bits, bf16);
}

__device__ inline float natural_exp(float x) { return exp2f(x * 1.4426950408889634f); }

template <typename T, typename Combine>
__device__ T block_reduce(T value, T* scratch, Combine combine) {
  __syncthreads();
  scratch[threadIdx.x] = value;
  __syncthreads();
  for (int half = kCheckThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    __syncthreads();
  }
  return scratch[0];
}

// The total of a row with all of its keys, and its sink: the largest scaled score, or the sink, the sum of exponentials
// relative to it, and what weights relative to the keys' maximum are multiplied by.
struct Total {
  float highest, sum, of_keys;
  __device__ float share() const { return sum > 0 ? of_keys / sum : 0.f; }
};

// A running maximum of products and the sum of exponentials under it.
struct Softmax {
  float maximum, sum;
  __device__ static Softmax empty() { return {__int_as_float(0xff800000), 0.f}; }
  __device__ static Softmax combine(Softmax a, Softmax b, float scale) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    const float m = fmaxf(a.maximum, b.maximum);
    return {m, a.sum * natural_exp((a.maximum - m) * scale) + b.sum * natural_exp((b.maximum - m) * scale)};
  }
  // What a chain has made -inf is hidden.
  __device__ void add(float product, float scale) {
    if (product != __int_as_float(0xff800000)) *this = combine(*this, {product, 1.f}, scale);
  }
  __device__ Total total(float scale) const { return {maximum * scale, sum, 1.f}; }
  // A sink is scaled already, and may be infinite.
  __device__ Total total(float scale, float sink) const {
    const float of_keys = maximum * scale, highest = fmaxf(of_keys, sink);
    if (highest == __int_as_float(0xff800000)) return {highest, 0.f, 0.f};
    const float weight = sum == 0 ? 0.f : natural_exp(of_keys - highest);
    return {highest, sum * weight + (sink == highest ? 1.f : natural_exp(sink - highest)), weight};
  }
};

constexpr float kInfiniteError = 3.0e38f;

// The error of a row, or of a thread's part of one: the sum of the errors' squares, and the largest with its dimension.
struct RowError {
  float squares;
  u64 worst;
  __device__ void add(float difference, int d) {
    float error = fabsf(difference);
    if (!(error < 1.0e18f)) error = kInfiniteError;  // NaN or infinite
    squares = fminf(fmaf(error, error, squares), kInfiniteError);
    worst = max(worst, static_cast<u64>(__float_as_uint(error)) << 32 | static_cast<u32>(d));
  }
  // Squares of 1e-23 are none.
  __device__ float norm() const { return fmaxf(sqrtf(squares), largest()); }
  __device__ float largest() const { return __uint_as_float(static_cast<u32>(worst >> 32)); }
  __device__ u32 dimension() const { return static_cast<u32>(worst); }
  __device__ static RowError combine(RowError a, RowError b) {
    return {fminf(a.squares + b.squares, kInfiniteError), max(a.worst, b.worst)};
  }
};

// An error in a unit. A row that must be zero has none.
__device__ inline float share_of(float error, float unit) {
  if (error == 0) return 0;
  const float share = error / unit;
  return share < kInfiniteError ? share : kInfiniteError;
}

__device__ inline u64 placed(float share, u32 place) { return static_cast<u64>(__float_as_uint(share)) << 32 | place; }

// Where checked row `index` lies: rows are numbered (batch, head, position). The checked ones exist.
struct CheckedRow {
  int batch, head, position, first;  // first: row of the sequence's first query, where they are packed
  __device__ CheckedRow(const AttentionParams& p, const CheckParams& c, long long index) {
    position = static_cast<int>(index % p.q_len);
    head = static_cast<int>(index / p.q_len % p.q_heads);
    batch = static_cast<int>(index / p.q_len / p.q_heads);
    first = c.q_starts == nullptr ? 0 : c.q_starts[batch];
  }
  __device__ long long offset(const TensorStrides& s) const {
    return batch * s.batch + (first + position) * s.row + head * s.head;
  }
};

// The length of sequence b, at most `most`: what `lengths` says, or else the distance of its starts.
__device__ inline int checked_length(const int* starts, const int* lengths, int b, int most) {
  const int given = lengths != nullptr ? lengths[b] : starts != nullptr ? starts[b + 1] - starts[b] : most;
  return max(0, min(given, most));
}

// The keys of the checked row's sequence and head, where they lie, and which of them the row sees: [first, end). The
// last query stands at the last key.
struct CheckedKeys {
  const AttentionParams& p;
  const CheckParams& c;
  const CacheParams& cache;
  const CheckedRow& row;
  int kv_head, first, end;

  __device__ CheckedKeys(const AttentionParams& params, const CheckParams& check, const CacheParams& cache_params,
                         const CheckedRow& checked)
      : p(params),
        c(check),
        cache(cache_params),
        row(checked),
        kv_head(checked.head / (params.q_heads / params.kv_heads)) {
    const int keys = checked_length(cache.k_starts, cache.lengths, row.batch, p.kv_len);
    const int queries = checked_length(cache.q_starts, cache.q_lengths, row.batch, p.q_len);
    const int own = row.position + keys - queries, right = c.causal ? 0 : cache.window_right;
    first = cache.window_left < 0 ? 0 : max(0, min(own - cache.window_left, keys));
    end = right < 0 ? keys : max(0, min(own + right + 1, keys));
  }

  __device__ const u16* at(const void* tensor, const TensorStrides& s, int key) const {
    const int page = c.page == 0 ? row.batch : cache.pages[row.batch * cache.table_stride + key / c.page];
    const long long slot =
        (c.page == 0 ? key : key % c.page) + (cache.k_starts == nullptr ? 0 : cache.k_starts[row.batch]);
    return static_cast<const u16*>(tensor) + page * s.batch + slot * s.row + kv_head * s.head;
  }
  __device__ const u16* k(int key) const { return at(p.k, p.k_strides, key); }
  __device__ const u16* v(int key) const { return at(p.v, p.v_strides, key); }
};

__device__ inline float dot(const float* query, const u16* key, int head_dim, bool bf16, bool vectors) {
  float sum = 0;
  if (vectors) {
    for (int d = 0; d < head_dim; d += 8) {
      const uint4 piece = *reinterpret_cast<const uint4*>(key + d);
      const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const u16 bits = static_cast<u16>(words[i / 2] >> (i % 2 * 16));
        sum = fmaf(query[d + i], load_element(&bits, bf16), sum);
      }
    }
  } else {
    for (int d = 0; d < head_dim; ++d) sum = fmaf(query[d], load_element(key + d, bf16), sum);
  }
  return sum;
}

}  // namespace gqa

// first: the tensor's first element, where rows begin.
extern "C" __global__ void gqa_fill(unsigned short* data, long long count, unsigned long long seed, long long first,
                                    const __grid_constant__ gqa::TrialRows rows) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    float x = gqa::near_normal(seed * 0x100000001ull + i);
    if (i >= first) x = gqa::trial_element(rows, x, i - first);
    data[i] = static_cast<unsigned short>(rows.bf16 ? gqa::BF16::pack(x, 0.f) : gqa::F16::pack(x, 0.f));
  }
}

namespace gqa {

// What softmax is of: products, so that they are scaled after the maximum is subtracted, or what a chain makes of
// scores.
__device__ inline float checked_value(const CheckParams& c, const CheckedRow& row, int key, float product) {
  if (c.chain.count == 0) return product;
  return checked_chain(c.chain, {row.batch, row.head, row.position, key}, c.bf16, product * c.scale);
}
__device__ inline float checked_scale(const CheckParams& c) { return c.chain.count == 0 ? c.scale : 1.f; }

}  // namespace gqa

// One CTA a checked row: its float32 output and log-sum-exp, and the unit of its error. Exponents are of differences
// of products before scaling, so that they are exact however far the products are from zero.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_reference(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c,
                  const __grid_constant__ gqa::CacheParams cache) {
  using namespace gqa;
  __shared__ float query[256];
  __shared__ Softmax states[kCheckThreads];
  __shared__ float weights[2][kCheckThreads];  // float32, and rounded
  __shared__ RowError errors[kCheckThreads];
  const bool bf16 = c.bf16, vectors = c.vectors;
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const CheckedKeys keys(p, c, cache, row);
  const u16* q = static_cast<const u16*>(p.q) + row.offset(p.q_strides);
  for (int d = threadIdx.x; d < c.head_dim; d += kCheckThreads) query[d] = load_element(q + d, bf16);
  __syncthreads();

  const float scale = checked_scale(c);
  Softmax softmax = Softmax::empty();
  for (int key = keys.first + threadIdx.x; key < keys.end; key += kCheckThreads)
    softmax.add(checked_value(c, row, key, dot(query, keys.k(key), c.head_dim, bf16, vectors)), scale);
  softmax = block_reduce(softmax, states, [&](Softmax a, Softmax b) { return Softmax::combine(a, b, scale); });
  const Total total = c.chain.sink == nullptr ? softmax.total(scale) : softmax.total(scale, c.chain.sink[row.head]);
  const float share = total.share();
  if (threadIdx.x == 0)
    c.reference_lse[blockIdx.x] = total.sum > 0 ? total.highest + logf(total.sum) : negative_infinity();

  float out[2] = {0, 0}, stand_in[2] = {0, 0};  // dimensions threadIdx.x and threadIdx.x + 128
  for (int first = keys.first; first < keys.end; first += kCheckThreads) {
    const int key = first + threadIdx.x;
    __syncthreads();
    weights[0][threadIdx.x] = weights[1][threadIdx.x] = 0;
    if (key < keys.end && softmax.sum != 0) {
      const float value = checked_value(c, row, key, dot(query, keys.k(key), c.head_dim, bf16, vectors));
      weights[0][threadIdx.x] = natural_exp((value - softmax.maximum) * scale);
      weights[1][threadIdx.x] = rounded(weights[0][threadIdx.x], bf16);
    }
    __syncthreads();
    const int count = min(kCheckThreads, keys.end - first);
    for (int half = 0; half < 2; ++half) {
      const int d = threadIdx.x + half * kCheckThreads;
      if (d >= c.head_dim_v) break;
      for (int i = 0; i < count; ++i) {
        const float value = load_element(keys.v(first + i) + d, bf16);
        out[half] = fmaf(weights[0][i], value, out[half]);
        stand_in[half] = fmaf(weights[1][i], value, stand_in[half]);
      }
    }
  }
  RowError error = {0, 0}, size = {0, 0};
  for (int half = 0; half < 2; ++half) {
    const int d = threadIdx.x + half * kCheckThreads;
    if (d >= c.head_dim_v) break;
    const float exact = share * out[half];
    c.reference[static_cast<long long>(blockIdx.x) * c.head_dim_v + d] = exact;
    error.add(rounded(share * stand_in[half], bf16) - exact, 0);
    size.add(exact, 0);
  }
  error = block_reduce(error, errors, RowError::combine);
  size = block_reduce(size, errors, RowError::combine);
  if (threadIdx.x != 0) return;
  const float root = sqrtf(static_cast<float>(c.head_dim_v));
  const float norm = fmaxf(error.norm(), fmaxf(c.rounding * size.norm(), c.least * root));
  const float element = fmaxf(norm / root, fmaxf(c.of_largest * error.largest(), c.rounding * size.largest()));
  const bool is_zero = size.largest() == 0;
  c.units[2 * blockIdx.x] = is_zero ? 0.f : norm;
  c.units[2 * blockIdx.x + 1] = is_zero ? 0.f : element;
  if (!is_zero) atomicAdd(&c.result->rows, 1u);
}

// One CTA a checked row: what its error is in the row's unit, and, where there is one, its log-sum-exp's as a share of
// what is allowed. Non-negative floats compare as their bits do.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_compare(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c) {
  using namespace gqa;
  __shared__ RowError errors[kCheckThreads];
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const u16* out = static_cast<const u16*>(p.out) + row.offset(p.out_strides);
  const long long first = static_cast<long long>(blockIdx.x) * c.head_dim_v;
  RowError error = {0, 0};
  for (int d = threadIdx.x; d < c.head_dim_v; d += kCheckThreads)
    error.add(load_element(out + d, c.bf16) - c.reference[first + d], d);
  error = block_reduce(error, errors, RowError::combine);
  if (threadIdx.x != 0) return;
  const float norm = share_of(error.norm(), c.units[2 * blockIdx.x]);
  const float largest = share_of(error.largest(), c.units[2 * blockIdx.x + 1]);
  atomicMax(&c.result->worst_row, placed(norm, blockIdx.x));
  atomicMax(&c.result->worst_element, placed(largest, static_cast<u32>(first) + error.dimension()));
  const float bounded = fminf(norm, kMostSummedShare);
  atomicAdd(&c.result->squares, static_cast<u64>(bounded * bounded * kSquaresUnit));
  if (p.lse == nullptr) return;
  const float given = p.lse[row.offset(p.lse_strides)], expected = c.reference_lse[blockIdx.x];
  const float most = fmaxf(c.lse_relative * fabsf(expected), c.lse_absolute);
  atomicMax(&c.result->worst_lse,
            placed(given == expected ? 0.f : share_of(fabsf(given - expected), most), blockIdx.x));
}

// Every element of the poisoned, guarded output slab: inside the problem it must be written and finite, outside it must
// still be poison.
extern "C" __global__ void gqa_scan(const __grid_constant__ gqa::ScanParams s) {
  using namespace gqa;
  u32 unwritten = 0, nonfinite = 0, stray = 0;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count; i += stride) {
    const long long at = i - s.first;
    bool inside = at >= 0 && at < s.batch * s.batch_stride;
    if (inside) {
      const long long in_batch = at % s.batch_stride;
      const long long row = s.rows_inner ? in_batch % s.row_extent : in_batch / s.row_extent;
      inside = row < s.rows;
    }
    const u32 bits = s.wide ? static_cast<const u32*>(s.slab)[i] : static_cast<const u16*>(s.slab)[i];
    const bool poison = bits == (s.wide ? 0xffffffffu : 0xffffu);
    const u32 exponent = s.wide || s.bf16 ? (s.wide ? 0x7f800000u : 0x7f80u) : 0x7c00u;
    unwritten += inside && poison;
    // A log-sum-exp may be -inf (a row that sees no key); compare judges its value.
    nonfinite += inside && !poison && !s.wide && (bits & exponent) == exponent;
    stray += !inside && !poison;
  }
  if (unwritten) atomicAdd(&s.result->unwritten, unwritten);
  if (nonfinite) atomicAdd(&s.result->nonfinite, nonfinite);
  if (stray) atomicAdd(&s.result->stray, stray);
}

// Cycles of the SM clock and nanoseconds of the global timer over the same short wait: their ratio is the clock.
extern "C" __global__ void gqa_clock(unsigned long long* cycles_and_nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  const long long cycles = clock64();
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < 100000);
  cycles_and_nanoseconds[0] = static_cast<unsigned long long>(clock64() - cycles);
  cycles_and_nanoseconds[1] = now - begin;
}

// Is every SM free? A CTA an SM waits for `nanoseconds`, with so much shared memory that nothing lies beside it. From
// the first that begins to the last that ends it takes that long once; where others have an SM, twice at least. Both of
// span, 0 before: the complement of the first begin, and the last end.
extern "C" __global__ void gqa_probe(unsigned long long* span, unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
  atomicMax(&span[0], ~begin);
  atomicMax(&span[1], now);
}

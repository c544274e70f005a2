// check.cuh: the kernels that verify and time: random inputs, the naive reference, comparison, clock.
// Owns: a plain attention, two passes over the keys, one CTA a row, more exact than the type that it judges: float32
// for 16 bits, float64 for float32. Beside it the naive computation, whose error is the yardstick: of 16 bits
// FlashAttention-2's stand-in, weights rounded for the second product and the output rounded; of float32 the formula as
// it stands, one operator after the other in float32.
// Never: shares code with the kernels it judges, except element conversions.
// Threads: 128 a CTA; results are combined by atomics on a CheckResult.
#pragma once

#include "check/check_chain.cuh"
#include "check/check_params.h"
#include "check/trial_inputs.h"

namespace gqa {

constexpr int kCheckThreads = 128;

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
template <typename Real>
struct Total {
  Real highest, sum, of_keys;
  __device__ Real share() const { return sum > 0 ? of_keys / sum : Real{0}; }
};

template <typename Real>
__device__ inline Real higher_of(Real a, Real b) {
  return a > b ? a : b;
}

// A running maximum of products and the sum of exponentials under it.
template <typename Real>
struct Softmax {
  Real maximum, sum;
  // What a chain has made of it is hidden.
  __device__ static Real hidden() { return negative_infinity(); }
  __device__ static Softmax empty() { return {hidden(), 0}; }
  __device__ static Softmax combine(Softmax a, Softmax b, Real scale) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    const Real m = higher_of(a.maximum, b.maximum);
    return {m, a.sum * exp((a.maximum - m) * scale) + b.sum * exp((b.maximum - m) * scale)};
  }
  __device__ void add(Real product, Real scale) {
    if (product != hidden()) *this = combine(*this, {product, 1}, scale);
  }
  __device__ Real weight(Real product, Real scale) const {
    return sum == 0 ? Real{0} : exp((product - maximum) * scale);
  }
  __device__ Total<Real> total(Real scale) const { return {maximum * scale, sum, 1}; }
  // A sink is scaled already, and may be infinite.
  __device__ Total<Real> total(Real scale, Real sink) const {
    const Real of_keys = maximum * scale, highest = higher_of(of_keys, sink);
    if (highest == hidden()) return {highest, 0, 0};
    const Real weight = sum == 0 ? Real{0} : exp(of_keys - highest);
    return {highest, sum * weight + (sink == highest ? Real{1} : exp(sink - highest)), weight};
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

  // Elements from the tensor's first to the key's.
  __device__ long long at(const TensorStrides& s, int key) const {
    const int page = c.page == 0 ? row.batch : cache.pages[row.batch * cache.table_stride + key / c.page];
    const long long slot =
        (c.page == 0 ? key : key % c.page) + (cache.k_starts == nullptr ? 0 : cache.k_starts[row.batch]);
    return page * s.batch + slot * s.row + kv_head * s.head;
  }
  __device__ long long k(int key) const { return at(p.k_strides, key); }
  __device__ long long v(int key) const { return at(p.v_strides, key); }
};

// q k in pieces of 16 bytes, of kPiece elements each. key: elements from the tensor's first to the key's.
template <typename Real, int kPiece>
__device__ inline Real dot_of_pieces(const float* query, const void* keys, long long key, int head_dim,
                                     ElementType type) {
  const auto* pieces = static_cast<const uint4*>(keys) + key / kPiece;
  Real sum = 0;
#pragma unroll 1
  for (int d = 0; d < head_dim; d += kPiece) {
    const uint4 piece = pieces[d / kPiece];
    const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum = fma(Real{query[d + i]}, Real{load_element(words, i, type)}, sum);
  }
  return sum;
}

// q k. vectors: the key begins at a multiple of 16 bytes.
template <typename Real>
__device__ inline Real dot(const float* query, const void* keys, long long key, int head_dim, ElementType type,
                           bool vectors) {
  if (vectors && type == ElementType::kF32) return dot_of_pieces<Real, 4>(query, keys, key, head_dim, type);
  if (vectors) return dot_of_pieces<Real, 8>(query, keys, key, head_dim, type);
  Real sum = 0;
  for (int d = 0; d < head_dim; ++d) sum = fma(Real{query[d]}, Real{load_element(keys, key + d, type)}, sum);
  return sum;
}

}  // namespace gqa

// first: the tensor's first element, where rows begin.
extern "C" __global__ void gqa_fill(void* data, long long count, unsigned long long seed, long long first,
                                    const __grid_constant__ gqa::TrialRows rows) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    float x = gqa::near_normal(seed * 0x100000001ull + i);
    if (i >= first) x = gqa::trial_element(rows, x, i - first);
    gqa::store_element(data, i, static_cast<gqa::ElementType>(rows.type), x);
  }
}

namespace gqa {

// What softmax is of: products, so that they are scaled after the maximum is subtracted, or what a chain makes of
// scores.
template <typename Real>
__device__ inline Real checked_value(const CheckParams& c, const CheckedRow& row, int key, Real product) {
  if (c.chain.count == 0) return product;
  return checked_chain<Real>(c.chain, {row.batch, row.head, row.position, key}, static_cast<ElementType>(c.type),
                             product * c.scale);
}
__device__ inline float checked_scale(const CheckParams& c) { return c.chain.count == 0 ? c.scale : 1.f; }

// One row by one arithmetic: its softmax, the weight of a key, and the total. kScaled: of scores that are scaled first,
// and rounded then.
template <typename Real, bool kScaled = false>
struct CheckedSoftmax {
  const AttentionParams& p;
  const CheckParams& c;
  const CheckedRow& row;
  const CheckedKeys& keys;
  const float* query;
  ElementType type;
  Softmax<Real> softmax;

  __device__ Real value(int key) const {
    const Real product = dot<Real>(query, p.k, keys.k(key), c.head_dim, type, c.vectors);
    if (kScaled && c.chain.count == 0) return product * c.scale;
    return checked_value<Real>(c, row, key, product);
  }
  __device__ Real scale() const { return kScaled ? 1.f : checked_scale(c); }
  __device__ void run(Softmax<Real>* scratch) {
    const Real by = scale();
    softmax = Softmax<Real>::empty();
    for (int key = keys.first + threadIdx.x; key < keys.end; key += kCheckThreads) softmax.add(value(key), by);
    softmax = block_reduce(softmax, scratch,
                           [&](Softmax<Real> a, Softmax<Real> b) { return Softmax<Real>::combine(a, b, by); });
  }
  __device__ Real weight(int key) const { return softmax.weight(value(key), scale()); }
  __device__ Total<Real> total() const {
    return c.chain.sink == nullptr ? softmax.total(scale()) : softmax.total(scale(), Real{c.chain.sink[row.head]});
  }
};

// What a row's CTA shares.
template <typename Real>
struct CheckMemory {
  float query[256];
  Softmax<Real> states[kCheckThreads];
  Softmax<float> naive_states[kCheckThreads];
  Real weights[kCheckThreads];
  float naive[kCheckThreads];
  RowError errors[kCheckThreads];
};

// Real: of the reference. The naive weights of 16 bits are its own, rounded.
template <typename Real>
__device__ inline void check_row(const AttentionParams& p, const CheckParams& c, const CacheParams& cache,
                                 CheckMemory<Real>& memory) {
  constexpr bool kOwnNaive = sizeof(Real) > sizeof(float);
  const ElementType type = kOwnNaive ? ElementType::kF32 : static_cast<ElementType>(c.type);
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const CheckedKeys keys(p, c, cache, row);
  for (int d = threadIdx.x; d < c.head_dim; d += kCheckThreads)
    memory.query[d] = load_element(p.q, row.offset(p.q_strides) + d, type);
  __syncthreads();

  CheckedSoftmax<Real> exact = {p, c, row, keys, memory.query, type, {}};
  exact.run(memory.states);
  CheckedSoftmax<float, true> naive = {p, c, row, keys, memory.query, type, {}};
  if constexpr (kOwnNaive) naive.run(memory.naive_states);
  const Total<Real> total = exact.total();
  const Real share = total.share();
  const float naive_share = kOwnNaive ? naive.total().share() : 1.f;
  if (threadIdx.x == 0)
    c.reference_lse[blockIdx.x] =
        total.sum > 0 ? static_cast<float>(total.highest + log(total.sum)) : negative_infinity();

  Real out[2] = {0, 0};  // dimensions threadIdx.x and threadIdx.x + 128
  float stand_in[2] = {0, 0};
  for (int first = keys.first; first < keys.end; first += kCheckThreads) {
    const int key = first + threadIdx.x;
    __syncthreads();
    memory.weights[threadIdx.x] = key < keys.end ? exact.weight(key) : Real{0};
    if constexpr (kOwnNaive)
      memory.naive[threadIdx.x] = key < keys.end ? naive.weight(key) * naive_share : 0.f;
    else
      memory.naive[threadIdx.x] = rounded(memory.weights[threadIdx.x], type);
    __syncthreads();
    const int count = min(kCheckThreads, keys.end - first);
    for (int half = 0; half < 2; ++half) {
      const int d = threadIdx.x + half * kCheckThreads;
      if (d >= c.head_dim_v) break;
      for (int i = 0; i < count; ++i) {
        const float value = load_element(p.v, keys.v(first + i) + d, type);
        out[half] = fma(memory.weights[i], Real{value}, out[half]);
        stand_in[half] = fmaf(memory.naive[i], value, stand_in[half]);
      }
    }
  }
  RowError error = {0, 0}, size = {0, 0};
  for (int half = 0; half < 2; ++half) {
    const int d = threadIdx.x + half * kCheckThreads;
    if (d >= c.head_dim_v) break;
    const Real value = share * out[half];
    c.reference[static_cast<long long>(blockIdx.x) * c.head_dim_v + d] = value;
    const float given = kOwnNaive ? stand_in[half] : rounded(static_cast<float>(share) * stand_in[half], type);
    error.add(static_cast<float>(Real{given} - value), 0);
    size.add(static_cast<float>(value), 0);
  }
  error = block_reduce(error, memory.errors, RowError::combine);
  size = block_reduce(size, memory.errors, RowError::combine);
  if (threadIdx.x != 0) return;
  const float root = sqrtf(static_cast<float>(c.head_dim_v));
  float query = 0;
  for (int d = 0; d < c.head_dim; ++d) query = fmaf(memory.query[d], memory.query[d], query);
  float farthest = exact.softmax.sum > 0 ? fabsf(static_cast<float>(exact.softmax.maximum * exact.scale())) : 0.f;
  if (c.chain.sink != nullptr && fabsf(c.chain.sink[row.head]) < kInfiniteError)
    farthest = fmaxf(farthest, fabsf(c.chain.sink[row.head]));
  const float score = fminf(farthest + c.of_query * sqrtf(query) * c.scale, c.most_score);
  const float rounding = c.rounding + c.rounding_of_score * score;
  const float norm = fmaxf(error.norm(), fmaxf(rounding * size.norm(), c.least * root));
  const float element = fmaxf(norm / root, fmaxf(c.of_largest * error.largest(), rounding * size.largest()));
  const bool is_zero = size.largest() == 0;
  c.units[2 * blockIdx.x] = is_zero ? 0.f : norm;
  c.units[2 * blockIdx.x + 1] = is_zero ? 0.f : element;
  if (!is_zero) atomicAdd(&c.result->rows, 1u);
}

}  // namespace gqa

// One CTA a checked row: its output and log-sum-exp, and the unit of its error. Exponents are of differences of
// products before scaling, so that they are exact however far the products are from zero.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_reference(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c,
                  const __grid_constant__ gqa::CacheParams cache) {
  __shared__ gqa::CheckMemory<float> memory;
  gqa::check_row<float>(p, c, cache, memory);
}

// The same for float32.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_reference_wide(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c,
                       const __grid_constant__ gqa::CacheParams cache) {
  __shared__ gqa::CheckMemory<double> memory;
  gqa::check_row<double>(p, c, cache, memory);
}

// One CTA a checked row: what its error is in the row's unit, and, where there is one, its log-sum-exp's as a share of
// what is allowed. Non-negative floats compare as their bits do.
extern "C" __global__ void __launch_bounds__(gqa::kCheckThreads)
    gqa_compare(const __grid_constant__ gqa::AttentionParams p, const __grid_constant__ gqa::CheckParams c) {
  using namespace gqa;
  __shared__ RowError errors[kCheckThreads];
  const CheckedRow row(p, c, c.rows[blockIdx.x]);
  const long long out = row.offset(p.out_strides);
  const long long first = static_cast<long long>(blockIdx.x) * c.head_dim_v;
  RowError error = {0, 0};
  for (int d = threadIdx.x; d < c.head_dim_v; d += kCheckThreads)
    error.add(
        static_cast<float>(load_element(p.out, out + d, static_cast<ElementType>(c.type)) - c.reference[first + d]), d);
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
  const auto type = static_cast<ElementType>(s.type);
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
    const bool wide = type == ElementType::kF32;
    const u32 bits = wide ? static_cast<const u32*>(s.slab)[i] : static_cast<const u16*>(s.slab)[i];
    const bool poison = bits == (wide ? 0xffffffffu : 0xffffu);
    const u32 exponent = wide ? 0x7f800000u : type == ElementType::kBF16 ? 0x7f80u : 0x7c00u;
    unwritten += inside && poison;
    // A log-sum-exp may be -inf (a row that sees no key); compare judges its value.
    nonfinite += inside && !poison && !s.rows_inner && (bits & exponent) == exponent;
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

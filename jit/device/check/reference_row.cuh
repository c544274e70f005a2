// reference_row.cuh: one row of attention, and the unit of its error.
// Owns: a plain attention, two passes over the keys, more exact than the type that it judges: float32 for 16 bits,
// float64 for float32. Beside it the naive computation, whose error is the yardstick: of 16 bits FlashAttention-2's
// stand-in, weights rounded for the second product and the output rounded; of float32 the formula as it stands, one
// operator after the other in float32.
// Never: shares code with the kernels that it judges, except element conversions.
// Threads: a CTA a row.
#pragma once

#include "check/check_chain.cuh"
#include "check/checked_keys.cuh"
#include "check/row_error.cuh"

namespace gqa {

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

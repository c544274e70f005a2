// row_error.cuh: the error of a checked row, which a CTA measures.
// Owns: squares and the largest, of a row's part and of a row; what they are in a unit; a CTA's reduction.
// Never: says what a row should be; knows attention.
// Threads: kCheckThreads a CTA; all of them reduce together.
#pragma once

#include "ptx/element.cuh"

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

}  // namespace gqa

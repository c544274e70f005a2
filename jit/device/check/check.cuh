// check.cuh: the kernels that verify and time: random inputs, the naive reference, comparison, clock.
// Owns: which of them there are, and how their CTAs' results are combined: by atomics on a CheckResult.
// Never: shares code with the kernels that they judge, except element conversions.
// Threads: 128 a CTA.
#pragma once

#include "check/reference_row.cuh"
#include "check/trial_inputs.h"

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

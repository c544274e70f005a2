// mma.cuh: tensor-core products of one warp.
// Owns: one wrapper for each ldmatrix and mma.sync form (PTX ISA 9.7.14.5), and the lane addresses their fragments
// want. Never: touches global memory. Threads: every call is made by all 32 lanes together.
#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/index.cuh"

namespace gqa {

struct Fragment {
  u32 r[4];
};

// PTX ISA 9.7.14.5.15, ldmatrix: four 8x8 tiles of 16-bit elements; lane i gives the row address of row i % 8 of tile i
// / 8. A tile's row is 16 bytes: of 32-bit elements a tile is 8x4, and a lane has one where it has two of 16 bits.
__device__ inline Fragment ldmatrix(u32 address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(address)
               : "memory");
  return f;
}

__device__ inline Fragment ldmatrix_transposed(u32 address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(address)
               : "memory");
  return f;
}

// PTX ISA 9.7.14.5.14, mma.m16n8k16: d += a (16x16, rows) * b (16x8, columns), float32 accumulators.
template <typename Element>
__device__ inline void mma(float (&d)[4], const Fragment& a, u32 b0, u32 b1);

template <>
__device__ inline void mma<F16>(float (&d)[4], const Fragment& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void mma<BF16>(float (&d)[4], const Fragment& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

// PTX ISA 9.7.14.5.14, mma.m16n8k8 of tf32: d = a (16x8, rows) * b (8x8, columns) + c. The unit takes of each register
// the sign, the exponent and ten bits of the mantissa, and cuts what it adds up off behind float32's last bit.
__device__ inline void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Byte offset of this lane's ldmatrix row in a 16x16 block of a tile with the given row pitch.
// Tiles in the order (rows 0-7, left), (rows 8-15, left), (rows 0-7, right), (rows 8-15, right): A of the first
// product, and, transposed, B of the second (rows are keys).
__device__ inline u32 lane_offset_rows_first(int pitch) {
  const int lane = lane_index();
  return (lane % 16) * pitch + (lane / 16) * 16;
}

// Tiles in the order (rows 0-7, left), (rows 0-7, right), (rows 8-15, left), (rows 8-15, right): B of the first
// product, whose rows are keys and columns the head dimension.
__device__ inline u32 lane_offset_columns_first(int pitch) {
  const int lane = lane_index();
  return (lane % 8 + lane / 16 * 8) * pitch + (lane / 8 % 2) * 16;
}

}  // namespace gqa

// wgmma.cuh: asynchronous tensor-core products of a warpgroup.
// Owns: the shared-memory descriptor of 128-byte swizzled operands and one wrapper for each ordering instruction (PTX
// ISA 9.7.15). The products themselves come in one form a tile size, so jit/wgmma_text.cc writes them.
// Never: waits for memory; pipeline.cuh does.
// Threads: the 128 threads of a warpgroup call together.
#pragma once

#include "ptx/cp_async.cuh"

namespace gqa {

// Columns of 16-bit elements in one 128-byte swizzled row: operands wider than this are several panels.
constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 2 * kPanelColumns;
__host__ __device__ constexpr int panels(int columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }
constexpr int kSwizzleBytes = 8 * kPanelRowBytes;  // the pattern repeats every 8 rows

// 9.7.15.5.1.2.2, matrix descriptor, 128-byte swizzle. `panel_stride`: bytes between panels, read only where the
// product's long side crosses panels (B of the second product).
__device__ inline u64 operand(u32 address, u32 panel_stride) {
  return (u64{1} << 62) | (u64{kSwizzleBytes >> 4} << 32) | (u64{panel_stride >> 4} << 16) | ((address & 0x3ffff) >> 4);
}

// Moves an operand on by bytes, along rows or within a panel's row.
__device__ inline u64 advance(u64 operand, u32 bytes) { return operand + (bytes >> 4); }

// Moves its first panel on by bytes; the panel after it stays where it is.
__device__ inline u64 advance_first_panel(u64 operand, u32 bytes) {
  return operand + (bytes >> 4) - (u64{bytes >> 4} << 16);
}

// The two above in the low word alone, which both fields are in and carry nothing out of: for bytes that the compiler
// does not know, or must not reckon in 64 bits.
__device__ inline u64 add_low(u64 operand, u32 low) {
  return (operand >> 32 << 32) | (static_cast<u32>(operand) + low);
}
__device__ inline u64 advance_low(u64 operand, u32 bytes) { return add_low(operand, bytes >> 4); }
__device__ inline u64 advance_first_panel_low(u64 operand, u32 bytes) {
  return add_low(operand, (bytes >> 4) - (bytes >> 4 << 16));
}

// 9.7.15.7.1, wgmma.fence: registers and shared memory written before are visible to the products after.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// 9.7.15.7.2, wgmma.commit_group.
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// 9.7.15.7.3, wgmma.wait_group: until at most kPending groups of products run.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Whatever `x`, which is never negative, depends on is computed here: a store that never happens asks for it. The
// assembler moves arithmetic past a wait_group freely, but no store.
__device__ inline void finish_before_waiting(float x) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}" ::"f"(x), "r"(0)
               : "memory");
}

// Keeps the compiler from moving uses of accumulators across the ordering instructions.
template <int kCount>
__device__ inline void pin(float (&registers)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int c = 0; c < 4; ++c) asm volatile("" : "+f"(registers[i][c])::"memory");
}

}  // namespace gqa

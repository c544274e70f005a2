// grid_dependency.cuh: beginning under the end of the grid before, in a stream that launches so (programmatic dependent
// launch).
// Owns: one wrapper for each griddepcontrol instruction (PTX ISA 9.7.13.13); nothing where they do not exist.
// Never: orders anything within a grid.
// Threads: every thread waits for itself.
#pragma once

namespace gqa {

// Nothing of global memory may be read or written before: until the grids before this one are over and their stores
// visible.
__device__ inline void wait_for_grids_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next grid may begin once all CTAs of this one said so; it waits for this one's end by itself.
__device__ inline void let_next_grid_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace gqa

// resources.h: what a candidate needs of a device, from its parameters alone.
// Owns: the shared-memory plan, register estimate and launch geometry of each family. The generated source asserts
// the same shared-memory size (static_assert(sizeof(Smem) == ...)), so host pruning and device layout cannot drift
// apart.
// Never: asks a driver or measures.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

// Bytes between rows of a shared-memory tile with `columns` 16-bit elements: one 16-byte pad, so that the eight rows an
// ldmatrix reads start in eight different bank groups (columns/8 is even for every head dim, so the pitch is odd).
constexpr int row_pitch(int columns) { return 2 * columns + 16; }

// Columns of a swizzled shared-memory tile: whole panels of 64, so that a row of a panel is 128 bytes.
constexpr int padded_columns(int columns) { return (columns + 63) / 64 * 64; }

// Dynamic shared memory of the kernel, bytes.
std::int64_t shared_memory(const Problem& problem, const Candidate& candidate);

// Registers a thread (warpgroup: a consumer's) will need, an estimate to prune by: accumulators, scores, fragments and
// addressing.
int registers(const Problem& problem, const Candidate& candidate);

// Registers that a consumer thread of the warpgroup family may have:
// jit/device/attention/wgmma_flash/warpgroup_flash.cuh.
int consumer_registers(const Candidate& candidate);

// The most of `q_regs` that leaves the rest of a candidate its registers.
int q_regs_that_fit(const Problem& problem, const Candidate& candidate);

// Warpgroups that share the keys of the same query rows (warpgroup), each taking every so-many-th block of them.
int key_shares(const Candidate& candidate);

// Whether a tile's first step may be half a block of keys (warpgroup): under a causal mask, in whole fragments of 16.
bool halves_tiles(const Problem& problem, const Candidate& candidate);

// CTAs an SM is asked to hold at once; more may fit.
int resident_blocks(const Candidate& candidate);

struct LaunchPlan {
  std::int64_t blocks = 0;          // CTAs, a 1-D grid; persistent: tiles, a cluster's as one
  bool persistent = false;          // CTAs walk tiles: no more are launched than run at once
  int threads = 0;                  // threads a CTA
  int resident = 1;                 // resident_blocks
  int cluster = 1;                  // CTAs a cluster
  std::int64_t shared_memory = 0;   // dynamic, bytes
  std::int64_t clusters = 0;        // persistent: that many run, if there is room; 0: no more than there are tiles
  std::int64_t partial_floats = 0;  // workspace for split partials, float32 elements
  std::int64_t counters = 0;        // workspace counters, uint32; zero before the first launch and left zero

  bool needs_workspace() const { return partial_floats > 0 || counters > 0; }
};
LaunchPlan plan(const Problem& problem, const Candidate& candidate);

// Query-row tiles of one head group: ceil(q_len * pack / tile_m); of clusters, their tiles together are one.
std::int64_t row_tiles(const Problem& problem, const Candidate& candidate);

// Head groups of all batch entries: what row tiles are made for.
std::int64_t head_groups(const Problem& problem, const Candidate& candidate);

// Head groups that are walked together: the largest number, at most as many as the candidate wants, that divides all of
// them.
std::int64_t head_swizzle(const Problem& problem, const Candidate& candidate);

// Rows of the first of them that do not exist, whole warpgroups', where the last is not full (warpgroup; else 0).
int rows_before(const Problem& problem, const Candidate& candidate);

}  // namespace gqa

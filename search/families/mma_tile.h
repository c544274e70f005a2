// mma_tile.h: what kernels of mma.sync have in common: mma_flash and split_kv.
// Owns: a line of their tables, their padded rows in shared memory, their registers, what a GPU refuses of them.
// Never: knows which warps take what.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/problem/problem.h"

namespace gqa {

struct MmaTile {
  int m, n, warps, stages;
};

// Bytes between rows of a shared-memory tile with `columns` elements: one 16-byte pad, so that the eight rows an
// ldmatrix reads start in eight different bank groups (columns/8 is even for every head dim, so the pitch is odd).
constexpr int row_pitch(ElementType type, int columns) { return element_bytes(type) * columns + 16; }

// Keys and values of a step of `keys`.
std::int64_t mma_stage_bytes(const Problem& problem, int keys);

// A thread's, an estimate to prune by: accumulators and scores of so many rows a warp, fragments and addressing.
int mma_registers(const Problem& problem, int warp_rows, int keys);

// How many products of tf32 terms make one product of float32 elements: each is a high and a low term, and 3 leave out
// that of the low ones, which float32 does not show. 0: elements of 16 bits, multiplied as they are. 1 and 2 can be
// written, and no trial passes them.
inline constexpr std::int32_t kTf32Terms = 3;
std::int32_t terms_of(const Problem& problem, const DeviceSpec& device);
std::string wrong_terms(const Problem& problem, std::int32_t terms);
std::string terms_words(std::int32_t terms);  // " tf32x3"; "" for 0

std::string over_mma_limits(const LaunchPlan& launch, int registers, const DeviceSpec& device);

}  // namespace gqa

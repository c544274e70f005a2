// host.h: what a candidate is on the host device, which runs the tiles of mma_flash and split_kv, a thread a tile.
// Owns: what it refuses and its time.
// Never: runs anything; runtime/host does.
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/problem/problem.h"

namespace gqa {

inline constexpr int kHostKeys[] = {64, 128, 256, 512};  // a step
inline constexpr int kFewestHostKeys = 64;

std::string wrong_for_host(const Problem& problem, int warps, int stages, int terms);

// A thread's tile: queries, one step of keys and values, scores and accumulators as float32.
std::string over_host_cache(const Problem& problem, const CandidateShape& shape, const DeviceSpec& device);

double host_us(const Problem& problem, const CandidateShape& shape, const DeviceSpec& device);

}  // namespace gqa

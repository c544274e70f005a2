// walk_cost.h: what the keys of a problem cost whoever walks them: the part of the cost models that families share.
// Owns: steps of a tile, how often keys come from memory, what moving them is worth.
// Never: knows a family; each has a model of its own that asks this.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/problem/mask.h"
#include "search/problem/problem.h"

namespace gqa {

// What a tile's keys cost. Steps differ between tiles only under a mask.
struct KeySteps {
  double average = 0, most = 0;
};

inline double key_value_width(const Problem& p) { return double{1} * p.head_dim + p.head_dim_v; }
// Bytes of the keys that some query sees, and of their values.
inline double key_value_bytes(const Problem& p) {
  return double{1} * element_bytes(p.kv_type) * p.batch * most_keys_of_all_queries(p) * p.kv_heads * key_value_width(p);
}

// Bytes of a step of so many keys, and of their values.
inline double step_bytes(const Problem& p, int keys) {
  return element_bytes(p.kv_type) * double{1} * keys * key_value_width(p);
}

// Keys that packed rows before `end` see: the last that exists sees most.
double keys_seen(const Problem& problem, int pack, std::int64_t end);

// Steps of `keys` each, sampled where there are many tiles: a causal tile's work grows linearly, a window's differs at
// the ends only.
KeySteps steps_of(const Problem& problem, const CandidateShape& shape, int keys);
// The same where a tile's steps are what a function says.
template <typename StepsOfTile>
double average_steps(std::int64_t tiles, const StepsOfTile& steps_of_tile) {
  const std::int64_t samples = tiles < 16 ? tiles : 16;
  double sum = 0;
  for (std::int64_t i = 0; i < samples; ++i) sum += steps_of_tile((2 * i + 1) * tiles / (2 * samples));
  return sum / static_cast<double>(samples);
}

// How often the keys come from memory: if those of a swizzled group of heads do not fit L2, every row tile reads them
// anew.
double key_reads(const Problem& problem, const CandidateShape& shape, const KeySteps& steps, const DeviceSpec& device);

// Cost of moving keys and values, in bytes that an SM gets from L2: all steps of all tiles, of `step_bytes` each, and
// what comes from memory.
double moved_bytes(const Problem& problem, double steps, double step_bytes, double reads_from_memory);

}  // namespace gqa

// resources.cc: see resources.h.
#include "search/families/resources.h"

#include <algorithm>

#include "search/rounding.h"

namespace gqa {
namespace {

constexpr int kProducerThreads = 128;

// jit/device/attention/common/tile.cuh, key_tile_bytes: a padded row a key, or where keys are transposed a row an
// element of head_dim.
std::int64_t key_tile(const Problem& p, const Candidate& c) {
  return p.keys_transposed() ? static_cast<std::int64_t>(p.head_dim) * row_pitch(c.tile_n)
                             : static_cast<std::int64_t>(c.tile_n) * row_pitch(p.head_dim);
}

// Keys and values of a step.
std::int64_t stage_bytes(const Problem& p, const Candidate& c) {
  return key_tile(p, c) + static_cast<std::int64_t>(c.tile_n) * row_pitch(p.head_dim_v);
}

// jit/device/attention/mma_flash/flash.cuh, FlashSmem: query rows (finished rows take their place), then the KV
// buffers.
std::int64_t flash_smem(const Problem& p, const Candidate& c) {
  const int row = row_pitch(std::max(p.head_dim, p.head_dim_v));
  return static_cast<std::int64_t>(c.tile_m) * row + c.stages * stage_bytes(p, c);
}

// jit/device/attention/split_kv/split.cuh, SplitSmem: query rows, then the warps' stages or the merge, then two floats
// a row and a flag.
std::int64_t split_smem(const Problem& p, const Candidate& c) {
  const std::int64_t stages = stage_bytes(p, c) * c.warps * c.stages;
  const std::int64_t merge = 4LL * c.warps * c.tile_m * (p.head_dim_v + 2);
  const std::int64_t query = static_cast<std::int64_t>(c.tile_m) * row_pitch(p.head_dim);
  return round_up(query + round_up(std::max(stages, merge), 16) + 8LL * c.tile_m + 4, 16);
}

// jit/device/attention/wgmma_flash/warpgroup_smem.cuh, WarpgroupSmem: panels of 64 columns for queries, out and the KV
// buffers, then the rings' and the handover's barriers, two tickets of 40 bytes and four tile numbers of 12; swizzled
// panels start at multiples of 1024 bytes.
std::int64_t warpgroup_smem(const Problem& p, const Candidate& c) {
  constexpr int kAlign = 1024;
  const int query = padded_columns(p.head_dim), value = padded_columns(p.head_dim_v);
  const std::int64_t handover = key_shares(c) == 1 ? 0 : 256LL * p.head_dim_v + 2048;
  const int ones = (c.ones_column != 0 ? 2048 : 0) + (c.folded_scale != 0 ? 16 * c.tile_m : 0);
  const std::int64_t out =
      c.out_parts != 0 ? 2LL * c.tile_m * round_up(value / 64, c.out_parts) / c.out_parts * 64 + handover + ones : 8;
  const std::int64_t rows = 2LL * c.tile_m * c.queries * query + out;
  // Transposed keys are panels of 64 keys, with a row an element of head_dim.
  const std::int64_t keys =
      p.keys_transposed() ? std::int64_t{p.head_dim} * padded_columns(c.tile_n) : std::int64_t{c.tile_n} * query;
  const std::int64_t stage = 2LL * (keys + std::int64_t{c.tile_n} * value);
  const std::int64_t barriers = 16LL * (c.queries + 2 * c.stages + 3) + 80 + 48;
  return round_up(rows + c.stages * stage + barriers, kAlign);
}

// jit/device/attention/wgmma_flash/warpgroup_attention.cuh: a consumer thread's share of 64 rows of out and scores as
// float32, the weights packed by two, their sums by a ones column, fragments of Q, and running state,
// addresses, loop counters.
int warpgroup_registers(const Problem& p, const Candidate& c) {
  return p.head_dim_v / 2 + c.tile_n / 2 + c.tile_n / 4 + 28 + (c.ones_column != 0 ? 4 : 0) + 4 * c.q_regs;
}

}  // namespace

std::int64_t shared_memory(const Problem& problem, const Candidate& candidate) {
  switch (candidate.family) {
    case Family::kFlash:
      return flash_smem(problem, candidate);
    case Family::kSplit:
      return split_smem(problem, candidate);
    case Family::kWarpgroup:
      return warpgroup_smem(problem, candidate);
  }
  return 0;
}

// The producer gives most of its registers to the consumers, more of them under the static scheduler; three share
// what two have. jit/device/attention/wgmma_flash/warpgroup_flash.cuh.
int consumer_registers(const Candidate& candidate) {
  const int consumers = candidate.warps / 4;
  const bool simple_walk = candidate.dynamic == 0 && candidate.stream_k == 0;
  return consumers == 1 ? 224 : consumers == 3 ? 160 : simple_walk ? 240 : 232;
}

int q_regs_that_fit(const Problem& problem, const Candidate& candidate) {
  Candidate none = candidate;
  none.q_regs = 0;
  const int left = consumer_registers(candidate) - warpgroup_registers(problem, none);
  return std::clamp(left / 4, 0, problem.head_dim / 16);
}

int registers(const Problem& problem, const Candidate& candidate) {
  if (candidate.family == Family::kWarpgroup) return warpgroup_registers(problem, candidate);
  const int warp_rows =
      candidate.family == Family::kFlash ? candidate.tile_m / std::max(candidate.warps, 1) : candidate.tile_m;
  const int fragments = warp_rows / 16;
  const int out = fragments * problem.head_dim_v / 2;  // float32 accumulators, 16 x head_dim_v over 32 lanes
  const int scores = fragments * candidate.tile_n / 2;
  const int operands = 4 * fragments + 4;
  return out + scores + operands + 4 * fragments + 36;  // and running state, addresses, loop counters
}

std::int64_t row_tiles(const Problem& problem, const Candidate& candidate) {
  const std::int64_t rows = static_cast<std::int64_t>(problem.q_len) * candidate.pack;
  const std::int64_t tile = std::int64_t{candidate.tile_m} * candidate.cluster;
  return (rows + tile - 1) / tile;
}

std::int64_t head_groups(const Problem& problem, const Candidate& candidate) {
  return std::int64_t{problem.batch} * (problem.q_heads / candidate.pack);
}

std::int64_t head_swizzle(const Problem& problem, const Candidate& candidate) {
  const std::int64_t groups = head_groups(problem, candidate);
  if (candidate.head_swizzle == 0 || candidate.head_swizzle >= groups) return groups;
  std::int64_t heads = candidate.head_swizzle;
  while (groups % heads != 0) --heads;
  return heads;
}

int rows_before(const Problem& problem, const Candidate& candidate) {
  if (candidate.family != Family::kWarpgroup) return 0;
  const std::int64_t places = row_tiles(problem, candidate) * candidate.tile_m * candidate.cluster;
  return static_cast<int>((places - std::int64_t{problem.q_len} * candidate.pack) / 64 * 64);
}

int key_shares(const Candidate& candidate) {
  return candidate.family == Family::kWarpgroup ? candidate.warps * 16 / candidate.tile_m : 1;
}

bool halves_tiles(const Problem& problem, const Candidate& candidate) {
  return candidate.family == Family::kWarpgroup && problem.causal() && key_shares(candidate) == 1 &&
         candidate.tile_n % 32 == 0;
}

int resident_blocks(const Candidate& candidate) {
  // One warpgroup alone leaves the tensor cores idle.
  return candidate.family == Family::kWarpgroup && candidate.warps == 4 ? 2 : 1;
}

// jit/device/attention/wgmma_flash/stream_k.cuh: a share is parts of two tiles at most; each warpgroup's of its 64 rows
// is a part and has a counter.
void add_stream_k(const Problem& problem, const Candidate& candidate, LaunchPlan* launch) {
  const std::int64_t warpgroups = std::int64_t{candidate.stream_k} * candidate.cluster * candidate.warps / 4;
  launch->clusters = candidate.stream_k;
  launch->partial_floats = 2 * warpgroups * (64LL * problem.head_dim_v + 512 * (1 + candidate.ones_column));
  launch->counters = warpgroups;
}

LaunchPlan plan(const Problem& problem, const Candidate& candidate) {
  LaunchPlan launch;
  const std::int64_t tiles = row_tiles(problem, candidate) * head_groups(problem, candidate);
  launch.blocks = tiles * candidate.splits;
  launch.threads = candidate.warps * 32;
  if (candidate.family == Family::kWarpgroup) {
    launch.threads += kProducerThreads;
    launch.persistent = true;
    launch.resident = resident_blocks(candidate);
    launch.cluster = candidate.cluster;
    launch.counters = candidate.dynamic;
    if (candidate.stream_k != 0) add_stream_k(problem, candidate, &launch);
  }
  launch.shared_memory = shared_memory(problem, candidate);
  if (candidate.family == Family::kSplit && candidate.splits > 1) {
    launch.partial_floats = launch.blocks * candidate.tile_m * (problem.head_dim_v + 2);
    launch.counters = tiles;
  }
  return launch;
}

}  // namespace gqa

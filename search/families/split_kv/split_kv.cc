// split_kv.cc: see split_kv.h: a candidate's text, what it needs of a device, and what is refused.
#include "search/families/split_kv/split_kv.h"

#include <algorithm>

#include "search/families/host.h"
#include "search/families/limits.h"
#include "search/families/mma_tile.h"
#include "search/families/served.h"
#include "search/problem/mask.h"
#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr int kFewRows = 64, kMostRows = 512;
constexpr std::int64_t kMostListedBlocks = 2147483647;
constexpr int kLeastRows = 16, kLeastKeys = 32;  // of tiles worth listing

// Query rows, then the warps' stages or the merge, then two floats a row and a flag: SplitSmem of split.cuh.
std::int64_t shared_memory(const Problem& p, const SplitKv& c) {
  const std::int64_t stages = mma_stage_bytes(p, c.tile_n) * c.warps * c.stages;
  const std::int64_t merge = 4LL * c.warps * c.tile_m * (p.head_dim_v + 2);
  const std::int64_t query = static_cast<std::int64_t>(c.tile_m) * row_pitch(p.q_type, p.head_dim);
  return round_up(query + round_up(std::max(stages, merge), 16) + 8LL * c.tile_m + 4, 16);
}

std::string wrong_for_gpu(const Problem& p, const SplitKv& c) {
  if (c.tile_m > kFewRows) return "tile of " + grouped(c.tile_m) + " rows: split has at most " + grouped(kFewRows);
  if (c.stages < 2 || c.stages > 6) return grouped(c.stages) + " stages: split has 2 to 6";
  if (c.warps > 8) return grouped(c.warps) + " warps: split has at most 8";
  if (std::string reason = wrong_terms(p, c.terms); !reason.empty()) return reason;
  return not_served(p, kServedByParts, SplitKv::kText.name);
}

// Blocks of a head group's tiles, with one for each tile beside its keys:
// jit/device/attention/split_kv/even_splits.cuh.
std::int64_t listed_blocks(const Problem& p, const SplitKv& c) {
  return row_tiles(p, shape_of(c)) * p.batch * (ceil_div(p.kv_len, c.tile_n) + 1);
}

std::string wrong_scheduler(const Problem& p, const SplitKv& c, bool host) {
  if (c.scheduler == SplitScheduler::kShares) return "";
  if (host) return "even=1: the host gives tiles to threads as they come free";
  if (!p.lengths_listed()) return "even=1: expected sequences with lengths of their own, since others are even already";
  const std::int64_t blocks = listed_blocks(p, c);
  return blocks <= kMostListedBlocks
             ? ""
             : grouped(blocks) + " blocks of keys: even=1 counts up to " + grouped(kMostListedBlocks);
}

// At least one CTA would have nothing to do.
std::string without_keys(const Problem& p, const SplitKv& c) {
  if (c.scheduler == SplitScheduler::kEven) return "";
  const std::int64_t steps = ceil_div(most_keys_of_all_queries(p), c.tile_n);
  const std::int64_t share = ceil_div(steps, c.splits);
  const std::int64_t used = ceil_div(steps, share);
  if (used >= c.splits) return "";
  return grouped(c.splits) + " splits of " + grouped(p.kv_len) + " keys leave " + grouped(c.splits - used) +
         " without keys";
}

std::string unfit(const Problem& p, const SplitKv& c, const DeviceSpec& device) {
  const CandidateShape shape = shape_of(c);
  const bool host = device.kind == DeviceKind::kHost;
  if (std::string reason = wrong_pack(p, shape); !reason.empty()) return reason;
  if (std::string reason = oversized(p, shape, kLeastRows, host ? kFewestHostKeys : kLeastKeys); !reason.empty())
    return reason;
  const std::int64_t rows = std::int64_t{p.q_len} * c.pack;
  if (const std::int64_t most = most_split_rows(p, device); rows > most)
    return grouped(rows) + " query rows a head group: split takes at most " + grouped(most);
  if (std::string reason = wrong_scheduler(p, c, host); !reason.empty()) return reason;
  return without_keys(p, c);
}

}  // namespace

SplitKv::Numbers numbers_of(const SplitKv& c) {
  return {c.tile_m, c.tile_n, c.warps, c.stages, c.pack, c.terms, static_cast<std::int32_t>(c.scheduler), c.splits, 0};
}

std::string read(const SplitKv::Numbers& numbers, SplitKv* c) {
  const auto [m, n, warps, stages, pack, terms, even, splits, head_swizzle] = numbers;
  *c = {m, n, warps, stages, pack, terms, even == 0 ? SplitScheduler::kShares : SplitScheduler::kEven, splits};
  if (even > 1) return "even=" + grouped(even) + ": expected 0 or 1";
  if (std::string reason = wrong_tile(shape_of(*c), warps); !reason.empty()) return reason;
  return head_swizzle == 0 ? "" : "head_swizzle=" + grouped(head_swizzle) + ": split has none";
}

CandidateShape shape_of(const SplitKv& c) {
  CandidateShape shape;
  shape.rows = c.tile_m;
  shape.keys = c.tile_n;
  shape.cta_keys = c.tile_n * c.warps;
  shape.pack = c.pack;
  shape.splits = c.scheduler == SplitScheduler::kShares ? c.splits : 1;
  return shape;
}

LaunchPlan plan(const Problem& problem, const SplitKv& c) {
  const CandidateShape shape = shape_of(c);
  const std::int64_t tiles = row_tiles(problem, shape) * head_groups(problem, shape);
  LaunchPlan launch;
  launch.blocks = tiles * c.splits;
  launch.threads = c.warps * 32;
  launch.shared_memory = shared_memory(problem, c);
  launch.bring(LaunchArgument::kCache, needs_cache_params(problem));
  launch.bring(LaunchArgument::kTokens, can_append(problem));
  launch.bring(LaunchArgument::kScores, needs_score_params(problem));
  if (c.scheduler == SplitScheduler::kEven) {
    // A CTA leaves parts of two tiles at most, and counts for the one that it begins.
    launch.blocks = std::int64_t{c.splits} * (problem.q_heads / c.pack);
    launch.partial_floats = 2 * launch.blocks * c.tile_m * (problem.head_dim_v + 2);
    launch.counters = launch.blocks;
  } else if (c.splits > 1) {
    launch.partial_floats = launch.blocks * c.tile_m * (problem.head_dim_v + 2);
    launch.counters = tiles;
  }
  return launch;
}

std::string arithmetic_words(const SplitKv& c) {
  return terms_words(c.terms) + (c.scheduler == SplitScheduler::kEven ? " even" : c.splits > 1 ? " joined" : "");
}

int registers(const Problem& problem, const SplitKv& c) { return mma_registers(problem, c.tile_m, c.tile_n); }

std::int64_t most_split_rows(const Problem& p, const DeviceSpec& device) {
  const std::int64_t flash_tiles = ceil_div(p.q_len, kFewRows) * p.q_heads * p.batch;
  return device.kind == DeviceKind::kCuda && 2 * flash_tiles < device.sms ? kMostRows : kFewRows;
}

std::string reject_reason(const Problem& problem, const SplitKv& c, const DeviceSpec& device) {
  const bool host = device.kind == DeviceKind::kHost;
  if (std::string reason = wrong_tile(shape_of(c), c.warps); !reason.empty()) return reason;
  std::string wrong = host ? wrong_for_host(problem, c.warps, c.stages, c.terms) : wrong_for_gpu(problem, c);
  if (!wrong.empty()) return wrong;
  if (std::string reason = unfit(problem, c, device); !reason.empty()) return reason;
  const LaunchPlan launch = plan(problem, c);
  if (std::string reason = over_grid(launch); !reason.empty()) return reason;
  return host ? over_host_cache(problem, shape_of(c), device) : over_mma_limits(launch, registers(problem, c), device);
}

}  // namespace gqa

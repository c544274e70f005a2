// mma_flash.cc: see mma_flash.h: a candidate's text, what it needs of a device, and what is refused.
#include "search/families/mma_flash/mma_flash.h"

#include <algorithm>

#include "search/families/host.h"
#include "search/families/limits.h"
#include "search/families/mma_tile.h"
#include "search/families/served.h"
#include "search/text.h"

namespace gqa {
namespace {

// Each tile of a sequence's rows writes the new keys that it reads: a decode's are one tile.
constexpr int kMostAppendRows = 16;
constexpr int kLeastRows = 16, kLeastHostRows = 32, kLeastKeys = 32;  // of tiles worth listing

// Query rows (finished rows take their place), then the KV buffers: FlashSmem of flash.cuh.
std::int64_t shared_memory(const Problem& p, const MmaFlash& c) {
  const int row = std::max(row_pitch(p.q_type, p.head_dim), row_pitch(p.out_type, p.head_dim_v));
  return static_cast<std::int64_t>(c.tile_m) * row + c.stages * mma_stage_bytes(p, c.tile_n);
}

std::string wrong_for_gpu(const Problem& p, const MmaFlash& c) {
  const int warp_rows = c.tile_m / c.warps;
  if (c.tile_m % c.warps != 0 || (warp_rows != 16 && warp_rows != 32))
    return grouped(c.tile_m) + " rows over " + grouped(c.warps) + " warps: flash gives a warp 16 or 32";
  if (c.stages < 1 || c.stages > 3) return grouped(c.stages) + " stages: flash has 1 to 3";
  if (std::string reason = wrong_terms(p, c.terms); !reason.empty()) return reason;
  return not_served(p, kServedByParts, MmaFlash::kText.name);
}

std::string unfit(const Problem& p, const CandidateShape& shape, bool host) {
  if (std::string reason = wrong_pack(p, shape); !reason.empty()) return reason;
  if (std::string reason = useless_pack(p, shape); !reason.empty()) return reason;
  return oversized(p, shape, host ? kLeastHostRows : kLeastRows, host ? kFewestHostKeys : kLeastKeys);
}

}  // namespace

MmaFlash::Numbers numbers_of(const MmaFlash& c) {
  return {c.tile_m, c.tile_n, c.warps, c.stages, c.pack, c.terms, 1, c.head_swizzle};
}

std::string read(const MmaFlash::Numbers& numbers, MmaFlash* c) {
  const auto [m, n, warps, stages, pack, terms, splits, head_swizzle] = numbers;
  *c = {m, n, warps, stages, pack, terms, head_swizzle};
  if (std::string reason = wrong_tile(shape_of(*c), warps); !reason.empty()) return reason;
  return more_than_one_split(splits, MmaFlash::kText.name);
}

CandidateShape shape_of(const MmaFlash& c) {
  CandidateShape shape;
  shape.rows = c.tile_m;
  shape.keys = shape.cta_keys = c.tile_n;
  shape.pack = c.pack;
  shape.head_swizzle = c.head_swizzle;
  return shape;
}

LaunchPlan plan(const Problem& problem, const MmaFlash& c) {
  const CandidateShape shape = shape_of(c);
  LaunchPlan launch;
  launch.blocks = row_tiles(problem, shape) * head_groups(problem, shape);
  launch.threads = c.warps * 32;
  launch.shared_memory = shared_memory(problem, c);
  launch.bring(LaunchArgument::kCache, needs_cache_params(problem));
  launch.bring(LaunchArgument::kTokens, c.tile_m <= kMostAppendRows && can_append(problem));
  launch.bring(LaunchArgument::kScores, needs_score_params(problem));
  return launch;
}

int registers(const Problem& problem, const MmaFlash& c) {
  return mma_registers(problem, c.tile_m / c.warps, c.tile_n);
}

std::string reject_reason(const Problem& problem, const MmaFlash& c, const DeviceSpec& device) {
  const bool host = device.kind == DeviceKind::kHost;
  const CandidateShape shape = shape_of(c);
  if (std::string reason = wrong_tile(shape, c.warps); !reason.empty()) return reason;
  std::string wrong = host ? wrong_for_host(problem, c.warps, c.stages, c.terms) : wrong_for_gpu(problem, c);
  if (!wrong.empty()) return wrong;
  if (std::string reason = unfit(problem, shape, host); !reason.empty()) return reason;
  const LaunchPlan launch = plan(problem, c);
  if (std::string reason = over_grid(launch); !reason.empty()) return reason;
  return host ? over_host_cache(problem, shape, device) : over_mma_limits(launch, registers(problem, c), device);
}

}  // namespace gqa

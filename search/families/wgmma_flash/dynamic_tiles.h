// dynamic_tiles.h: each CTA, or cluster, takes the next tile from a counter.
// Owns: DynamicTiles, that tile scheduler.
// Never: divides a tile.
// Threads: a value; pure functions.
#pragma once

#include <algorithm>

#include "search/families/wgmma_flash/scheduler_kind.h"

namespace gqa {

struct DynamicTiles : SchedulerKind {
  static constexpr SchedulerCode kDevice = {"dynamic_tiles.cuh", "DynamicTiles"};
  static constexpr TextField kField = {"dynamic", 0, FieldUse::kCode};
  static constexpr std::int32_t kMost = 1;
  static constexpr double kFirstFetch = 551;   // clocks, of a tile's number
  static constexpr double kImbalance = 0.127;  // once, at the end

  static DynamicTiles of(std::int32_t /*number*/) { return {}; }
  static DynamicTiles on(const DeviceSpec&, int /*cluster*/) { return {}; }

  std::int32_t number() const { return 1; }
  void plan(const Problem&, int /*warpgroups*/, int /*floats_beside_out*/, LaunchPlan* launch) const {
    launch->counters = 1;
  }
  double clocks(bool masked, const TileTimes& times) const {
    return std::max(work_clocks(times, idle_clocks(times, masked, kImbalance)), times.longest) + kFirstFetch;
  }
};

}  // namespace gqa

// static_rounds.h: tiles in rounds over the grid, every other round backwards.
// Owns: StaticRounds, the tile scheduler where the text says of no other.
// Never: needs a workspace.
// Threads: a value; pure functions.
#pragma once

#include <algorithm>

#include "search/families/wgmma_flash/scheduler_kind.h"

namespace gqa {

struct StaticRounds : SchedulerKind {
  static constexpr SchedulerCode kDevice = {"static_rounds.cuh", "StaticRounds"};
  static constexpr bool kSmallProducer = true;
  static constexpr double kImbalance = 0.226;  // at the end of each swizzled group of heads

  static StaticRounds on(const DeviceSpec&, int /*cluster*/) { return {}; }

  double clocks(bool masked, const TileTimes& times) const {
    return std::max(work_clocks(times, idle_clocks(times, masked, kImbalance * times.swizzles)), times.longest);
  }
};

}  // namespace gqa

// tile_scheduler.h: how the warpgroup family's tiles reach its persistent CTAs.
// Owns: TileScheduler: its numbers, what it refuses, the workspace it needs, the walks worth trying. Stream-K of the
// last partial wave is this, and its code. Never: knows a tile's size. Threads: a value; pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/problem/problem.h"

namespace gqa {

struct TileScheduler {
  // kStatic: rounds over the grid, every other round backwards. kDynamic: each CTA, or cluster, takes the next tile
  // from a counter. kStreamK: static rounds, and so many clusters (CTAs, where they are single) share the keys of the
  // last partial wave's tiles.
  enum class Kind : std::uint8_t { kStatic, kDynamic, kStreamK };

  Kind kind = Kind::kStatic;
  std::int32_t clusters = 0;  // kStreamK's

  bool is_static() const { return kind == Kind::kStatic; }
  bool is_dynamic() const { return kind == Kind::kDynamic; }
  bool shares_last_wave() const { return kind == Kind::kStreamK; }

  // As the text has them.
  std::int32_t dynamic() const { return kind == Kind::kDynamic ? 1 : 0; }
  std::int32_t stream_k() const { return clusters; }
};

// From the text's numbers; both at once are no scheduler.
std::string read(std::int32_t dynamic, std::int32_t stream_k, TileScheduler* scheduler);

std::string wrong_scheduler(const TileScheduler& scheduler, int rows);
std::string useless_scheduler(const Problem& problem, const TileScheduler& scheduler, const CandidateShape& shape);

// Counters, partials and how many clusters run; of `warpgroups` a CTA, whose rows have so many floats beside out's.
void plan_scheduler(const Problem& problem, const TileScheduler& scheduler, int warpgroups, int floats_beside_out,
                    LaunchPlan* launch);

// Worth trying: a kind of scheduler, on clusters of so many CTAs.
struct TileWalk {
  TileScheduler::Kind kind;
  int cluster;
};
inline constexpr TileWalk kTileWalks[] = {{TileScheduler::Kind::kStatic, 1},  {TileScheduler::Kind::kDynamic, 1},
                                          {TileScheduler::Kind::kStatic, 2},  {TileScheduler::Kind::kDynamic, 2},
                                          {TileScheduler::Kind::kStreamK, 1}, {TileScheduler::Kind::kStreamK, 2}};
TileScheduler scheduler_of(const TileWalk& walk, const DeviceSpec& device);

}  // namespace gqa

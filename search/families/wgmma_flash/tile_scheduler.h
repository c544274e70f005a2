// tile_scheduler.h: how the warpgroup family's tiles reach its persistent CTAs.
// Owns: TileScheduler: its part of the text, what it refuses, the workspace it needs, the walks worth trying, how it
// evens out the load. Stream-K of the last partial wave is these two files, a line of jit/families/ and device code.
// Never: knows a tile's size.
// Threads: a value; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/text_fields.h"
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
  bool is_stream_k() const { return kind == Kind::kStreamK; }

  // Its fields of the text, with the most that each can be.
  static constexpr TextField kFields[] = {{"dynamic", 0, FieldUse::kCode}, {"stream_k", 0, FieldUse::kMechanism}};
  static constexpr std::int32_t kMost[] = {1, 1 << 16};
  using Numbers = std::array<std::int32_t, 2>;
  Numbers numbers() const { return {is_dynamic() ? 1 : 0, clusters}; }
};

// From the text's numbers; both at once are no scheduler.
std::string read(const TileScheduler::Numbers& numbers, TileScheduler* scheduler);

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

// What tiles take, clocks, where `each` of them, on average, comes to a CTA.
struct TileTimes {
  double each;
  double average, longest;  // of a tile, with its overhead
  double overhead;          // epilogue and prologue
  double more_steps, step;  // that the longest has over the average, where a mask makes tiles differ; one of them
  double rows, columns;     // of a tile of out
  double swizzles;          // groups of heads that are walked one after another
  double share;             // of its time that a CTA takes where two share an SM
};
// Clocks until the last CTA is done.
double schedule_clocks(const TileScheduler& scheduler, bool masked, const TileTimes& times);

}  // namespace gqa

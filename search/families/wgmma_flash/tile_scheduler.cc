// tile_scheduler.cc: see tile_scheduler.h.
#include "search/families/wgmma_flash/tile_scheduler.h"

#include <algorithm>
#include <cmath>

#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr double kDynamic = 551;                                       // clocks: the first fetch of a tile's number
constexpr double kDynamicImbalance = 0.127, kStaticImbalance = 0.226;  // idle at an end: see idle_clocks()
constexpr double kFixupAnOutput = 0.98;  // clocks, of parts of a tile, in the workspace: a row and dimension
constexpr double kWholeWaves = 0.995;    // of their places in use
constexpr int kFewestRows = 128;         // one CTA an SM

std::string text_of(std::int32_t stream_k) { return "stream_k=" + grouped(stream_k); }

// Load imbalance under a mask, of what the longest tile has over the average: once at the end under the dynamic
// scheduler, at the end of each swizzled group of heads under the static one. Tiles of equal work run in waves, whose
// last partial one stream-K evens out.
double idle_clocks(const TileScheduler& scheduler, bool masked, const TileTimes& times) {
  const double imbalance = scheduler.is_dynamic() ? kDynamicImbalance : kStaticImbalance * times.swizzles;
  if (masked) return imbalance * times.more_steps * times.step;
  return scheduler.is_stream_k() ? 0 : (std::ceil(times.each) - times.each) * times.longest;
}

std::string wrong_stream_k(std::int32_t stream_k) {
  return text_of(stream_k) + ": expected dynamic=0, whose last wave it shares, and 128 rows or more";
}

}  // namespace

std::string read(const TileScheduler::Numbers& numbers, TileScheduler* scheduler) {
  using Kind = TileScheduler::Kind;
  const auto [dynamic, stream_k] = numbers;
  if (dynamic != 0 && stream_k != 0) return wrong_stream_k(stream_k);
  *scheduler = {stream_k != 0 ? Kind::kStreamK : dynamic != 0 ? Kind::kDynamic : Kind::kStatic, stream_k};
  return "";
}

std::string wrong_scheduler(const TileScheduler& scheduler, int rows) {
  return scheduler.is_stream_k() && rows < kFewestRows ? wrong_stream_k(scheduler.clusters) : "";
}

// Stream-K costs a fix-up in the workspace: the last wave must be idle for more than that.
std::string useless_scheduler(const Problem& p, const TileScheduler& scheduler, const CandidateShape& shape) {
  if (!scheduler.is_stream_k()) return "";
  const std::string given = text_of(scheduler.clusters);
  if (p.causal()) return given + " under a causal mask: its last tiles are the shortest ones";
  if (p.head_dim_v >= 256 && shape.keys > 64)
    return given + " with steps of " + grouped(shape.keys) + " keys: beside " + grouped(p.head_dim_v) +
           " columns of out they leave too few registers for it";
  const std::int64_t tiles = row_tiles(p, shape) * head_groups(p, shape);
  const std::int64_t waves = ceil_div(tiles, scheduler.clusters);
  if (static_cast<double>(tiles) <= kWholeWaves * static_cast<double>(waves * scheduler.clusters)) return "";
  return given + ": " + grouped(tiles) + " tiles nearly fill " + grouped(waves) + " waves";
}

// stream_k.cuh: a share is parts of two tiles at most; each warpgroup's of its 64 rows is a part and has a counter.
void plan_scheduler(const Problem& p, const TileScheduler& scheduler, int warpgroups, int floats_beside_out,
                    LaunchPlan* launch) {
  launch->counters = scheduler.is_dynamic() ? 1 : 0;
  if (!scheduler.is_stream_k()) return;
  const std::int64_t all = std::int64_t{scheduler.clusters} * launch->cluster * warpgroups;
  launch->clusters = scheduler.clusters;
  launch->partial_floats = 2 * all * (64LL * p.head_dim_v + floats_beside_out);
  launch->counters = all;
}

double schedule_clocks(const TileScheduler& scheduler, bool masked, const TileTimes& times) {
  const double work = times.share * (times.each * times.average + idle_clocks(scheduler, masked, times));
  if (scheduler.is_stream_k()) return work + (times.overhead + kFixupAnOutput * times.rows * times.columns);
  return std::max(work, times.longest) + (scheduler.is_dynamic() ? kDynamic : 0);
}

TileScheduler scheduler_of(const TileWalk& walk, const DeviceSpec& device) {
  return {walk.kind, walk.kind == TileScheduler::Kind::kStreamK ? device.sms / walk.cluster : 0};
}

}  // namespace gqa

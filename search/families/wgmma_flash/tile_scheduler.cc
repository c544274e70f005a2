// tile_scheduler.cc: see tile_scheduler.h.
#include "search/families/wgmma_flash/tile_scheduler.h"

#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr double kWholeWaves = 0.995;  // of their places in use
constexpr int kLeastRows = 128;        // one CTA an SM

std::string text_of(std::int32_t stream_k) { return "stream_k=" + grouped(stream_k); }

std::string wrong_stream_k(std::int32_t stream_k) {
  return text_of(stream_k) + ": expected dynamic=0, whose last wave it shares, and 128 rows or more";
}

}  // namespace

std::string read(std::int32_t dynamic, std::int32_t stream_k, TileScheduler* scheduler) {
  using Kind = TileScheduler::Kind;
  if (dynamic != 0 && stream_k != 0) return wrong_stream_k(stream_k);
  *scheduler = {stream_k != 0 ? Kind::kStreamK : dynamic != 0 ? Kind::kDynamic : Kind::kStatic, stream_k};
  return "";
}

std::string wrong_scheduler(const TileScheduler& scheduler, int rows) {
  return scheduler.shares_last_wave() && rows < kLeastRows ? wrong_stream_k(scheduler.clusters) : "";
}

// Stream-K costs a fix-up in the workspace: the last wave must be idle for more than that.
std::string useless_scheduler(const Problem& p, const TileScheduler& scheduler, const CandidateShape& shape) {
  if (!scheduler.shares_last_wave()) return "";
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
  launch->counters = scheduler.dynamic();
  if (!scheduler.shares_last_wave()) return;
  const std::int64_t all = std::int64_t{scheduler.clusters} * launch->cluster * warpgroups;
  launch->clusters = scheduler.clusters;
  launch->partial_floats = 2 * all * (64LL * p.head_dim_v + floats_beside_out);
  launch->counters = all;
}

TileScheduler scheduler_of(const TileWalk& walk, const DeviceSpec& device) {
  return {walk.kind, walk.kind == TileScheduler::Kind::kStreamK ? device.sms / walk.cluster : 0};
}

}  // namespace gqa

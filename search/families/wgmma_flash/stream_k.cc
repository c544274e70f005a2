// stream_k.cc: see stream_k.h.
#include "search/families/wgmma_flash/stream_k.h"

#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr double kFixupAnOutput = 0.98;  // clocks, of parts of a tile, in the workspace: a row and dimension
constexpr double kWholeWaves = 0.995;    // of their places in use
constexpr int kFewestRows = 128;         // one CTA an SM

std::string text_of(const StreamK& scheduler) { return "stream_k=" + grouped(scheduler.clusters); }

}  // namespace

StreamK StreamK::of(std::int32_t number) {
  StreamK scheduler;
  scheduler.clusters = number;
  return scheduler;
}

StreamK StreamK::on(const DeviceSpec& device, int cluster) { return of(device.sms / cluster); }

std::string StreamK::wrong(int rows) const {
  return rows < kFewestRows ? text_of(*this) + ": expected one CTA an SM, and so 128 rows or more" : "";
}

// The fix-up in the workspace costs time: the last wave must be idle for more than that.
std::string StreamK::useless(const Problem& p, const CandidateShape& shape) const {
  const std::string given = text_of(*this);
  if (p.causal()) return given + " under a causal mask: its last tiles are the shortest ones";
  if (p.head_dim_v >= 256 && shape.keys > 64)
    return given + " with steps of " + grouped(shape.keys) + " keys: beside " + grouped(p.head_dim_v) +
           " columns of out they leave too few registers for it";
  const std::int64_t tiles = row_tiles(p, shape) * head_groups(p, shape);
  const std::int64_t waves = ceil_div(tiles, clusters);
  if (static_cast<double>(tiles) <= kWholeWaves * static_cast<double>(waves * clusters)) return "";
  return given + ": " + grouped(tiles) + " tiles nearly fill " + grouped(waves) + " waves";
}

// stream_k.cuh: a share is parts of two tiles at most; each warpgroup's of its 64 rows is a part and has a counter.
void StreamK::plan(const Problem& p, int warpgroups, int floats_beside_out, LaunchPlan* launch) const {
  const std::int64_t all = std::int64_t{clusters} * launch->cluster * warpgroups;
  launch->clusters = clusters;
  launch->partial_floats = 2 * all * (64LL * p.head_dim_v + floats_beside_out);
  launch->counters = all;
}

// Nobody is idle in the last wave.
double StreamK::clocks(bool /*masked*/, const TileTimes& times) const {
  return work_clocks(times, 0) + (times.overhead + kFixupAnOutput * times.rows * times.columns);
}

}  // namespace gqa

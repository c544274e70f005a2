// stream_k.h: stream-K of the last partial wave: static rounds of whole waves; then so many clusters (CTAs, where they
// are single) share the keys of the tiles that are left over.
// Owns: StreamK, that tile scheduler.
// Never: runs under a mask.
// Threads: a value; pure functions.
#pragma once

#include "search/families/wgmma_flash/scheduler_kind.h"
#include "search/problem/mask.h"
#include "search/rounding.h"
#include "search/text.h"

namespace gqa {

struct StreamK : SchedulerKind {
  static constexpr SchedulerCode kDevice = {"stream_k.cuh", "StreamK"};
  static constexpr std::string_view kJoins = "stream_k";
  static constexpr TextField kField = {"stream_k", 0, FieldUse::kMechanism};
  static constexpr std::int32_t kMost = 1 << 16;
  static constexpr double kFixupAnOutput = 0.98;  // clocks, of parts of a tile, in the workspace: a row and dimension
  static constexpr double kWholeWaves = 0.995;    // of their places in use
  static constexpr int kFewestRows = 128;         // one CTA an SM

  std::int32_t clusters = 0;

  static StreamK of(std::int32_t number) { return {{}, number}; }
  static StreamK on(const DeviceSpec& device, int cluster) { return of(device.sms / cluster); }

  std::int32_t number() const { return clusters; }
  std::string text() const { return "stream_k=" + grouped(clusters); }

  std::string wrong(int rows) const {
    return rows < kFewestRows ? text() + ": expected one CTA an SM, and so 128 rows or more" : "";
  }

  // The fix-up in the workspace costs time: the last wave must be idle for more than that.
  std::string useless(const Problem& p, const CandidateShape& shape) const {
    if (p.has_lists())
      return text() + " where sequences have lengths or pages of their own: its shares count blocks of one length";
    if (work_grows(p)) return text() + " under a causal mask: its last tiles are the shortest ones";
    if (p.head_dim_v >= 256 && shape.keys > 64)
      return text() + " with steps of " + grouped(shape.keys) + " keys: beside " + grouped(p.head_dim_v) +
             " columns of out they leave too few registers for it";
    const std::int64_t tiles = row_tiles(p, shape) * head_groups(p, shape);
    const std::int64_t waves = ceil_div(tiles, clusters);
    if (static_cast<double>(tiles) <= kWholeWaves * static_cast<double>(waves * clusters)) return "";
    return text() + ": " + grouped(tiles) + " tiles nearly fill " + grouped(waves) + " waves";
  }

  // stream_k.cuh: a share is parts of two tiles at most; each warpgroup's of its 64 rows is a part and has a counter.
  void plan(const Problem& p, int warpgroups, int floats_beside_out, LaunchPlan* launch) const {
    const std::int64_t all = std::int64_t{clusters} * launch->cluster * warpgroups;
    launch->clusters = clusters;
    launch->partial_floats = 2 * all * (64LL * p.head_dim_v + floats_beside_out);
    launch->counters = all;
  }

  // Nobody is idle in the last wave.
  double clocks(bool /*masked*/, const TileTimes& times) const {
    return work_clocks(times, 0) + (times.overhead + kFixupAnOutput * times.rows * times.columns);
  }
};

}  // namespace gqa

// stream_k.h: stream-K of the last partial wave: static rounds of whole waves; then so many clusters (CTAs, where they
// are single) share the keys of the tiles that are left over.
// Owns: StreamK, that tile scheduler. Device code: stream_k.cuh.
// Never: runs under a mask.
// Threads: a value; pure functions.
#pragma once

#include "search/families/wgmma_flash/scheduler_kind.h"

namespace gqa {

struct StreamK : SchedulerKind {
  static constexpr TextField kField = {"stream_k", 0, FieldUse::kMechanism};
  static constexpr std::int32_t kMost = 1 << 16;

  std::int32_t clusters = 0;

  static StreamK of(std::int32_t number);
  static StreamK on(const DeviceSpec& device, int cluster);

  std::int32_t number() const { return clusters; }
  std::string wrong(int rows) const;
  std::string useless(const Problem& problem, const CandidateShape& shape) const;
  void plan(const Problem& problem, int warpgroups, int floats_beside_out, LaunchPlan* launch) const;
  double clocks(bool masked, const TileTimes& times) const;
};

}  // namespace gqa

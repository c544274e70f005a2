// scheduler_kind.h: what the warpgroup family asks each kind of its tile schedulers.
// Owns: SchedulerKind, the questions that have an answer for most: of a scheduler that hands out whole tiles and needs
// no workspace. TileTimes, what a kind's time is reckoned from. Besides, a kind has
//   kDevice             its device code
//   kField, kMost       its field of the text, with the most that it can be; all but the first kind
//   of(number)          itself, from the field's number: not 0
//   on(device, cluster) what of it is worth trying on a device's clusters of so many CTAs
//   clocks(masked, t)   of tiles that take t, until the last CTA is done
// Never: knows a kind, or a tile's size.
// Threads: values; pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/text_fields.h"
#include "search/problem/problem.h"

namespace gqa {

// A header of jit/device/attention/wgmma_flash/, and its type there.
struct SchedulerCode {
  std::string_view header, type;
};

struct SchedulerKind {
  // Whether its producer does with the fewest registers: role_registers() (wgmma_flash.h).
  static constexpr bool kSmallProducer = false;
  // What joins the parts of a tile that it divides, as arithmetic.h calls it; "": it divides none.
  static constexpr std::string_view kJoins = "";

  std::int32_t number() const { return 0; }  // of its field
  // Why it is none, of CTAs with so many rows; why it would be foolish.
  std::string wrong(int /*rows*/) const { return ""; }
  std::string useless(const Problem&, const CandidateShape&) const { return ""; }
  // Counters, partials and how many clusters run; of `warpgroups` a CTA, whose rows have so many floats beside out's.
  void plan(const Problem&, int /*warpgroups*/, int /*floats_beside_out*/, LaunchPlan*) const {}
};

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

// Clocks of CTAs that are idle for so long on average.
inline double work_clocks(const TileTimes& times, double idle) {
  return times.share * (times.each * times.average + idle);
}

// Idle at an end: under a mask a part of what the longest tile has over the average; else in the last partial wave.
inline double idle_clocks(const TileTimes& times, bool masked, double imbalance) {
  if (masked) return imbalance * times.more_steps * times.step;
  return (std::ceil(times.each) - times.each) * times.longest;
}

}  // namespace gqa

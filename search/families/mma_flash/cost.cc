// cost.cc: how long a candidate of the family should take; see mma_flash.h and mma_cost.h. All warps share the keys,
// each reads all of them.
#include <algorithm>
#include <cmath>

#include "search/families/mma_cost.h"
#include "search/families/mma_flash/mma_flash.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

MmaModel model_of(const Problem& p, const MmaFlash& c, const DeviceSpec& device) {
  const double wait = c.stages == 1 ? 12 : 240;
  const MmaKernel kernel = {c.warps, c.stages, 1, 1.05 * c.warps + 1, wait, registers(p, c)};
  return mma_model(p, shape_of(c), plan(p, c), kernel, device);
}

// Blocks of equal work run in waves; under a causal mask the longest start first and the short ones fill the gaps.
double compute_seconds(const MmaModel& m) {
  if (!work_grows(m.problem)) return m.steps.most * seconds_of_waves(m);
  const double each = m.blocks() / m.sms();
  const int together = static_cast<int>(std::clamp(std::ceil(each), 1.0, double{1} * m.resident));
  const double last_wave = (m.shape.head_swizzle == 0 ? 0.25 : 0.5) * m.steps.average * step_seconds(m, 1);
  const double balanced = m.steps.average * std::max(each, 1.0) * step_seconds(m, together) / together + last_wave;
  return std::max(balanced, m.steps.most * step_seconds(m, 1));
}

}  // namespace

double predict_us(const Problem& problem, const MmaFlash& c, const DeviceSpec& device) {
  const MmaModel m = model_of(problem, c, device);
  const double l2 = m.blocks() * m.steps.average * m.step_bytes() / (std::min(m.blocks(), m.sms()) * kL2BytesAnSm);
  const double reads = key_reads(problem, m.shape, m.steps, device);
  const double memory = memory_seconds(m, bytes(problem) + (reads - 1) * key_value_bytes(problem));
  const double longest = std::max({compute_seconds(m), l2, memory});
  return 1e6 * (kMmaLaunch + longest + kMmaProlog * (1 + (m.waves() - 1) / m.resident));
}

double moved_bytes(const Problem& problem, const MmaFlash& c, const DeviceSpec& device) {
  const CandidateShape shape = shape_of(c);
  const KeySteps steps = steps_of(problem, shape, shape.keys);
  const double all = static_cast<double>(plan(problem, c).blocks) * steps.average;
  return moved_bytes(problem, all, step_bytes(problem, c.tile_n), key_reads(problem, shape, steps, device));
}

}  // namespace gqa

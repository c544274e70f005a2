// cost.cc: how long a candidate of the family should take; see split_kv.h and mma_cost.h. Every warp takes a step of
// its own keys, and partial results are merged.
#include <algorithm>
#include <cmath>

#include "search/families/mma_cost.h"
#include "search/families/split_kv/split_kv.h"

namespace gqa {
namespace {

constexpr double kArrive = 4.4e-6;  // s: counter, first partials
constexpr double kWaitClocks = 74;

MmaModel model_of(const Problem& p, const SplitKv& c, const DeviceSpec& device) {
  const MmaKernel kernel = {c.warps, c.stages, c.warps, 2, kWaitClocks, registers(p, c)};
  return mma_model(p, shape_of(c), plan(p, c), kernel, device);
}

double steps_of_all(const MmaModel& m) {
  return static_cast<double>(row_tiles(m.problem, m.shape) * head_groups(m.problem, m.shape)) * m.steps.average;
}

// Across the block's warps in shared memory, then across blocks through L2 by the last to arrive.
double merge_seconds(const MmaModel& m) {
  const double rows = m.shape.rows, row_bytes = 4.0 * (m.problem.head_dim_v + 2);
  double seconds = 2 * m.kernel.warps * rows * row_bytes / kSharedBytesAClock / kMmaClock;
  if (m.shape.splits == 1) return seconds;
  const double valid = std::min(rows, double{1} * m.problem.q_len * m.shape.pack);
  seconds += kArrive + m.shape.splits * valid * row_bytes / kMostBytesAnSm;
  return seconds + 2 * m.blocks() * rows * row_bytes / (m.sms() * kL2BytesAnSm);
}

}  // namespace

double predict_us(const Problem& problem, const SplitKv& c, const DeviceSpec& device) {
  const MmaModel m = model_of(problem, c, device);
  const double keys = c.scheduler == SplitScheduler::kEven ? steps_of_all(m) / m.blocks() : m.steps.most / c.splits;
  const double steps = std::ceil(std::ceil(keys) / c.warps);  // of one warp
  const double compute = steps * seconds_of_waves(m);
  const double tiles = static_cast<double>(row_tiles(problem, m.shape));
  const double group_reads = tiles * problem.group() / c.pack;  // of the same keys, from L2 after the first
  const double memory = memory_seconds(m, bytes(problem));
  const double l2 = group_reads * key_value_bytes(problem) / (std::min(m.blocks(), m.sms()) * kL2BytesAnSm);
  // The chain of one warp's steps and the memory's pace overlap, but not wholly.
  const double longest = std::max({compute, l2, memory}), second = std::min(compute, memory);
  const double prologs = kMmaProlog * (1 + (m.waves() - 1) / m.resident);
  return 1e6 * (kMmaLaunch + longest + 0.19 * second + prologs + merge_seconds(m));
}

double moved_bytes(const Problem& problem, const SplitKv& c, const DeviceSpec& device) {
  const CandidateShape shape = shape_of(c);
  const KeySteps steps = steps_of(problem, shape, shape.keys);
  const double all = static_cast<double>(row_tiles(problem, shape) * head_groups(problem, shape)) * steps.average;
  return moved_bytes(problem, all, step_bytes(problem, c.tile_n), key_reads(problem, shape, steps, device));
}

}  // namespace gqa

// walk_cost.cc: see walk_cost.h.
#include "search/families/walk_cost.h"

#include <algorithm>
#include <cmath>

#include "search/problem/mask.h"
#include "search/rounding.h"

namespace gqa {
namespace {

constexpr double kMemoryOverL2 = 4;  // the power a byte takes, roughly

// Keys and values that every row tile of a swizzled group of heads passes.
double swizzle_bytes(const Problem& p, const CandidateShape& shape) {
  const double heads = std::ceil(static_cast<double>(head_swizzle(p, shape)) * shape.pack / p.group());
  return heads * key_value_bytes(p) / (double{1} * p.batch * p.kv_heads);
}

}  // namespace

double keys_seen(const Problem& p, int pack, std::int64_t end) {
  if (!work_grows(p)) return most_keys_of_all_queries(p);
  const std::int64_t last_row = std::min(end, std::int64_t{p.q_len} * pack) - 1;
  return seen_keys(p, {p.q_len, p.kv_len}, static_cast<std::int32_t>(last_row / pack)).end;
}

KeySteps steps_of(const Problem& p, const CandidateShape& shape, int keys) {
  const std::int64_t tiles = row_tiles(p, shape), rows = std::int64_t{shape.rows} * shape.cluster;
  const auto steps_of_tile = [&](std::int64_t tile) {
    const std::int64_t end = std::min((tile + 1) * rows, std::int64_t{p.q_len} * shape.pack);
    const KeyRange seen = seen_keys(p, {p.q_len, p.kv_len}, static_cast<std::int32_t>(tile * rows / shape.pack),
                                    static_cast<std::int32_t>((end - 1) / shape.pack + 1));
    return static_cast<double>(ceil_div(seen.end, keys) - seen.first / keys);
  };
  double most = steps_of_tile(tiles - 1);
  const double average = average_steps(tiles, [&](std::int64_t tile) {
    const double steps = steps_of_tile(tile);
    most = std::max(most, steps);
    return steps;
  });
  return {average, most};
}

double key_reads(const Problem& p, const CandidateShape& shape, const KeySteps& steps, const DeviceSpec& device) {
  const double fits = 0.6 * static_cast<double>(device.l2_bytes);
  // Which part of the keys that are seen a tile passes.
  const double part = p.windowed() ? std::min(1.0, steps.most * shape.keys / most_keys_of_all_queries(p)) : 1;
  if (shape.head_swizzle == 1 || part * swizzle_bytes(p, shape) <= fits) return 1;
  return std::max(1.0, part * static_cast<double>(row_tiles(p, shape)) * steps.average / std::max(1.0, steps.most));
}

double moved_bytes(const Problem& problem, double steps, double step_bytes, double reads_from_memory) {
  return steps * step_bytes + kMemoryOverL2 * reads_from_memory * key_value_bytes(problem);
}

}  // namespace gqa

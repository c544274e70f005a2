// host.cc: see host.h.
#include "search/families/host.h"

#include <algorithm>
#include <cmath>

#include "search/families/served.h"
#include "search/families/walk_cost.h"
#include "search/problem/mask.h"
#include "search/text.h"

namespace gqa {
namespace {

// A transposed key's elements do not lie side by side, as its loops read them.
constexpr Served served_by_host() {
  Served served = kServedByParts;
  served.keys = served.keys.without(KeyLayout::kTransposed);
  return served;
}

}  // namespace

std::string wrong_for_host(const Problem& p, int warps, int stages, int terms) {
  if (warps != 1) return grouped(warps) + " warps: the host has 1";
  if (stages != 1) return grouped(stages) + " stages: the host has 1";
  if (terms != 0) return "terms=" + grouped(terms) + ": the host multiplies elements as they are";
  return not_served(p, served_by_host(), "the host");
}

std::string over_host_cache(const Problem& p, const CandidateShape& s, const DeviceSpec& device) {
  const std::int64_t width = std::int64_t{p.head_dim} + p.head_dim_v;
  const std::int64_t bytes = 4 * s.keys * width + 4 * s.rows * width + 4LL * s.rows * s.keys;
  const std::int64_t most = std::max<std::int64_t>(device.smem_per_block, 1 << 20);
  if (bytes <= most) return "";
  return "works on " + grouped(bytes) + " bytes a thread, a core's cache holds " + grouped(most);
}

// Threads run whole tiles; a small tile spends its time on widening 16-bit keys and on loop ends.
double host_us(const Problem& p, const CandidateShape& s, const DeviceSpec& device) {
  const KeySteps steps = steps_of(p, s, s.keys);
  const double width = key_value_width(p);
  const double flops_a_thread = device.tensor_flops / device.sms;
  const double rows = std::min(double{1} * s.rows, double{1} * p.q_len * s.pack);  // padding costs the host nothing
  const double efficiency = rows / (rows + 8) * s.keys / (s.keys + 24.0);
  const double products = 2.0 * rows * s.keys * width / efficiency;
  const double softmax = 60.0 * rows * s.keys, widening = 24.0 * s.keys * width;
  const double step = (products + softmax + widening) / flops_a_thread;
  const double share = std::ceil(steps.average / s.splits);
  const double blocks = static_cast<double>(row_tiles(p, s) * head_groups(p, s) * s.splits);
  // Stolen work evens out unequal tiles; equal ones run in rounds.
  const double rounds = work_grows(p) ? std::max(1.0, blocks / device.sms + 0.5) : std::ceil(blocks / device.sms);
  const double memory = bytes(p) / device.memory_bandwidth;
  const double merge = s.splits > 1 ? 2e-6 + 8.0 * blocks * s.rows * p.head_dim_v / device.memory_bandwidth : 0;
  return 1e6 * (3e-6 + std::max(rounds * (share * step + 0.5e-6), memory) + merge);
}

}  // namespace gqa

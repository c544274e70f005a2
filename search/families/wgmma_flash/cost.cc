// cost.cc: how long a candidate of the family should take; see wgmma_flash.h. A model that orders candidates, not a
// clock: its constants were fitted to 4,582 timed candidates of 229 shapes on an H200 that idles before each sample
// (boost clock; docs/performance.md); clocks are an SM's.
#include <algorithm>
#include <cmath>

#include "search/families/walk_cost.h"
#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

constexpr double kClock = 1.9e9;                     // Hz
constexpr double kProductsShare = 0.824;             // of the time that the data sheet's rate gives
constexpr double kClocksAnExponential = 0.0768;      // its share of the special-function units
constexpr double kExposed[] = {1.17, 0.287, 0.244};  // of the shorter of softmax and products, with 1, 2, 3 warpgroups
constexpr double kStep = 184, kStepAWarpgroup = 19.5;
constexpr double kClocksAKeyByte = 0.0048;   // of keys and values, from L2: power more than time
constexpr double kShared = 1.022;            // of it, between two CTAs: they save power, which is not short then
constexpr double kThirdStage = 0.981;        // of a step, where there is one
constexpr double kCopied = 1.05;             // of a step whose keys warps copy: a guess, nothing was timed
constexpr double kOnesColumn = 0.948;        // of a step whose row sums PV makes
constexpr double kQRegsGain = 0.0216;        // of a step whose Q is all in registers
constexpr double kTileOverhead = 986;        // from tile to tile: first scores, last values, out
constexpr double kTileAKey = 0.0165;         // times the widths of a key and a value
constexpr double kTileAnOutput = 9.5;        // times head_dim_v and warpgroups
constexpr double kTileFromRegisters = 2055;  // out has no buffer to leave through
constexpr double kTileInParts = 399;         // or one for a part of it
constexpr double kBesideAnother = 0.616;     // of its time a CTA takes that shares its SM
constexpr double kLaunch = 1.8e-6;           // s
constexpr double kBesideMemory = 0.138;      // of the shorter of memory's and SMs' time

// Steps of a tile's warpgroups on average: each walks what its own 64 rows see, in whole or half blocks at first.
double steps_of_warpgroups(const Problem& p, const WgmmaFlash& c, std::int64_t tile) {
  const int groups = c.tile_m / kWarpgroupRows * c.cluster, parts = halves_tiles(p, c) ? 2 : 1;
  const std::int64_t first = tile * c.tile_m * c.cluster - rows_before(p, c);
  double steps = 0;
  for (int group = 0; group < groups; ++group) {
    const double keys = keys_seen(p, c.pack, std::max<std::int64_t>(1, first + kWarpgroupRows * (group + 1)));
    steps += std::ceil(keys / c.tile_n * parts) / parts;
  }
  return steps / groups;
}

// The share of warpgroups whose rows exist: without a mask, the others walk nothing.
double share_with_rows(const Problem& p, const WgmmaFlash& c) {
  return 1 - rows_before(p, c) / (double{1} * row_tiles(p, shape_of(c)) * c.tile_m * c.cluster);
}

// Keys that a CTA's warpgroups that share them walk side by side.
int keys_a_step(const WgmmaFlash& c) { return c.tile_n * c.key_shares; }

KeySteps steps_of(const Problem& p, const WgmmaFlash& c) {
  const CandidateShape shape = shape_of(c);
  KeySteps steps = steps_of(p, shape, keys_a_step(c));
  if (c.key_shares != 1) return steps;
  steps.average = work_grows(p) ? average_steps(row_tiles(p, shape),
                                                [&](std::int64_t tile) { return steps_of_warpgroups(p, c, tile); })
                                : steps.most * share_with_rows(p, c);
  return steps;
}

struct Model {
  const Problem& p;
  const WgmmaFlash& c;
  const DeviceSpec& device;
  CandidateShape shape = shape_of(c);
  LaunchPlan launch = plan(p, c);
  KeySteps steps = steps_of(p, c);

  double width() const { return key_value_width(p); }
  double sms() const { return device.sms / c.cluster; }  // a cluster is as one
  double blocks() const { return static_cast<double>(launch.blocks); }
};

// Tiles that run together walk the keys together: each round of tiles reads them, not each tile.
double key_rounds(const Model& m) {
  const double rounds = m.blocks() / m.sms() * m.steps.average / std::max(1.0, m.steps.most);
  return std::min(key_reads(m.p, m.shape, m.steps, m.device), std::max(1.0, rounds));
}

// Keys and values of a step of all a CTA's warpgroups.
double step_bytes(const Model& m) {
  const int key_columns = m.p.keys_transposed() ? m.p.head_dim : padded_columns(m.p.head_dim);
  return 2.0 * keys_a_step(m.c) * (key_columns + padded_columns(m.p.head_dim_v));
}

// A step of all a CTA's warpgroups, clocks: the exponentials of one run under the products of another, but not wholly.
double step_clocks(const Model& m) {
  const double scores = double{1} * m.c.tile_m * keys_a_step(m.c);
  const int warpgroups = m.c.warpgroups();
  const double rate = m.device.wgmma_flops / m.device.sms / kClock;
  const double products = kProductsShare * 2 * scores * m.width() / rate, softmax = scores * kClocksAnExponential;
  const double busy = std::max(products, softmax) + kExposed[warpgroups - 1] * std::min(products, softmax);
  const double moved = kClocksAKeyByte * step_bytes(m) * (m.c.cluster > 1 ? kShared : 1);
  const double step = busy + kStep + kStepAWarpgroup * warpgroups + moved;
  const double q_regs = 1 - kQRegsGain * m.c.q_regs * 16 / m.p.head_dim;
  const double weights = m.c.has_ones() ? kOnesColumn : 1;
  return step * q_regs * weights * (m.c.stages > 2 ? kThirdStage : 1) * (m.c.copies_pages() ? kCopied : 1);
}

// Epilogue and prologue: from a tile's last step to the first of the next.
double tile_overhead(const Model& m) {
  const double keys = kTileAKey * m.c.tile_n * m.width();
  const double outputs = kTileAnOutput * m.p.head_dim_v * (m.c.tile_m / kWarpgroupRows);
  const double leaving = m.c.out_parts == 0 ? kTileFromRegisters : m.c.out_parts > 1 ? kTileInParts : 0;
  return kTileOverhead + keys + outputs + leaving;
}

double compute_clocks(const Model& m) {
  const double step = step_clocks(m), overhead = tile_overhead(m);
  TileTimes times = {};
  times.each = m.blocks() / m.sms();
  times.average = m.steps.average * step + overhead;
  times.longest = m.steps.most * step + overhead;
  times.overhead = overhead;
  times.more_steps = m.steps.most - m.steps.average;
  times.step = step;
  times.rows = m.c.tile_m;
  times.columns = m.p.head_dim_v;
  times.swizzles = static_cast<double>(head_groups(m.p, m.shape) / head_swizzle(m.p, m.shape));
  times.share = m.launch.resident > 1 ? kBesideAnother : 1;
  return m.c.scheduler.clocks(work_grows(m.p), times);
}

}  // namespace

double predict_us(const Problem& problem, const WgmmaFlash& candidate, const DeviceSpec& device) {
  const Model m{problem, candidate, device};
  const double compute = compute_clocks(m);
  const double memory = (bytes(problem) + (key_rounds(m) - 1) * key_value_bytes(problem)) / device.memory_bandwidth;
  const double seconds = compute / kClock;
  return 1e6 * (kLaunch + std::max(seconds, memory) + kBesideMemory * std::min(seconds, memory));
}

double moved_bytes(const Problem& problem, const WgmmaFlash& candidate, const DeviceSpec& device) {
  const Model m{problem, candidate, device};
  return moved_bytes(problem, m.blocks() * m.steps.average, step_bytes(m), key_rounds(m));
}

}  // namespace gqa

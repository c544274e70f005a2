// cost.cc: how long a candidate should take; see space.h. A model that orders candidates, not a clock: its constants
// were fitted to timed candidates on an H200 (docs/performance.md), and timing has the last word.
// Owns: predict_us: work a key step, what hides what inside an SM, waves, memory, merges.
// Never: decides what may run (prune.cc does).
// Threads: pure functions.
#include <algorithm>
#include <cmath>

#include "search/families/resources.h"
#include "search/families/space.h"

namespace gqa {
namespace {

constexpr double kClock = 1.8e9;            // Hz
constexpr double kSharedBytesAClock = 128;  // of an SM's shared memory
constexpr double kClocksAScore = 0.10;      // exp, scale, maximum and sum, over an SM's lanes
constexpr double kClocksAnOutput = 0.018;   // rescaling, a row and dimension
constexpr double kL2BytesAnSm = 45e9;       // bytes/s an SM gets from L2 with all of them reading
constexpr double kMostBytesAnSm = 45e9;     // bytes/s it can take alone
constexpr double kMemoryLatency = 0.46e-6;  // s
constexpr double kLaunch = 2.2e-6;          // s
constexpr double kProlog = 3.4e-6;          // s: queries and the first keys arrive, the last rows leave
constexpr double kArrive = 4.4e-6;          // s: counter, first partials
// Warpgroup, fitted to 4,582 timed candidates of 229 shapes on an H200 that idles before each sample (boost clock);
// clocks of an SM.
constexpr double kWarpgroupClock = 1.9e9;            // Hz
constexpr double kProductsShare = 0.824;             // of the time that the data sheet's rate gives
constexpr double kClocksAnExponential = 0.0768;      // its share of the special-function units
constexpr double kExposed[] = {1.17, 0.287, 0.244};  // of the shorter of softmax and products, with 1, 2, 3 warpgroups
constexpr double kStep = 184, kStepAWarpgroup = 19.5;
constexpr double kClocksAKeyByte = 0.0048;   // of keys and values, from L2: power more than time
constexpr double kShared = 1.022;            // of it, between two CTAs: they save power, which is not short then
constexpr double kThirdStage = 0.981;        // of a step, where there is one
constexpr double kOnesColumn = 0.948;        // of a step whose row sums PV makes
constexpr double kExp2Fma = 0.953;           // of a step whose exponentials are in part emulated
constexpr double kQRegsGain = 0.0216;        // of a step whose Q is all in registers
constexpr double kTileOverhead = 986;        // from tile to tile: first scores, last values, out
constexpr double kTileAKey = 0.0165;         // times the widths of a key and a value
constexpr double kTileAnOutput = 9.5;        // times head_dim_v and warpgroups
constexpr double kTileFromRegisters = 2055;  // out has no buffer to leave through
constexpr double kTileInParts = 399;         // or one for a part of it
constexpr double kDynamic = 551;             // the first fetch of a tile's number
constexpr double kDynamicImbalance = 0.127, kStaticImbalance = 0.226;  // idle at an end: see imbalance()
constexpr double kFixupAnOutput = 0.98;      // of parts of a tile, in the workspace: a row and dimension
constexpr double kBesideAnother = 0.616;     // of its time a CTA takes that shares its SM
constexpr double kWarpgroupLaunch = 1.8e-6;  // s
constexpr double kBesideMemory = 0.138;      // of the shorter of memory's and SMs' time
constexpr double kMemoryOverL2 = 4;          // the power a byte takes, roughly
constexpr int kSchedulers = 4;

// What a tile's keys cost. Steps differ between tiles only under a causal mask.
struct Steps {
  double average = 0, most = 0;
};

// Keys that packed rows before `end` see: the last that exists sees most.
double keys_seen(const Problem& p, const Candidate& c, std::int64_t end) {
  if (!p.causal()) return p.kv_len;
  const std::int64_t last_row = std::min(end, std::int64_t{p.q_len} * c.pack) - 1;
  return static_cast<double>(std::clamp<std::int64_t>(last_row / c.pack + p.kv_len - p.q_len + 1, 0, p.kv_len));
}

// Steps of a tile's warpgroups on average: each walks what its own 64 rows see, in whole or half blocks at first.
double warpgroup_steps(const Problem& p, const Candidate& c, std::int64_t tile) {
  const int groups = c.tile_m / 64 * c.cluster, parts = halves_tiles(p, c) ? 2 : 1;
  const std::int64_t first = tile * c.tile_m * c.cluster - rows_before(p, c);
  double steps = 0;
  for (int group = 0; group < groups; ++group) {
    const double keys = keys_seen(p, c, std::max<std::int64_t>(1, first + 64 * (group + 1)));
    steps += std::ceil(keys / c.tile_n * parts) / parts;
  }
  return steps / groups;
}

// Keys that a CTA's warpgroups that share them walk side by side.
int keys_a_step(const Candidate& c) { return c.tile_n * key_shares(c); }

// Of warpgroups without a mask, who walk nothing where their rows do not exist.
double share_with_rows(const Problem& p, const Candidate& c) {
  return 1 - rows_before(p, c) / (double{1} * row_tiles(p, c) * c.tile_m * c.cluster);
}

// Under a mask, sampled where there are many tiles: the work of a tile grows linearly.
Steps steps_of(const Problem& p, const Candidate& c) {
  const bool own = c.family == Family::kWarpgroup && key_shares(c) == 1;
  const std::int64_t tiles = row_tiles(p, c), samples = std::min<std::int64_t>(tiles, 16);
  Steps steps;
  steps.most = std::ceil(keys_seen(p, c, tiles * c.tile_m * c.cluster) / keys_a_step(c));
  if (!p.causal()) {
    steps.average = steps.most * (own ? share_with_rows(p, c) : 1);
    return steps;
  }
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t tile = (2 * i + 1) * tiles / (2 * samples);
    steps.average +=
        own ? warpgroup_steps(p, c, tile) : std::ceil(keys_seen(p, c, (tile + 1) * c.tile_m) / keys_a_step(c));
  }
  steps.average /= static_cast<double>(samples);
  return steps;
}

struct Model {
  const Problem& p;
  const Candidate& c;
  const DeviceSpec& device;
  LaunchPlan launch = plan(p, c);
  Steps steps = steps_of(p, c);
  int resident = 1;         // blocks an SM holds
  double busy_clocks = 0;   // a step of one block, limited by the busiest unit
  double other_clocks = 0;  // what the other units need, hidden if there are warps to hide it

  double width() const { return double{1} * p.head_dim + p.head_dim_v; }
  double sms() const { return device.sms / c.cluster; }  // a cluster is as one
  double blocks() const { return static_cast<double>(launch.blocks); }
  double kv_bytes() const { return 2.0 * p.batch * p.kv_len * p.kv_heads * width(); }
};

int resident_blocks(const Model& m) {
  const int registers_a_thread = (registers(m.p, m.c) + 7) / 8 * 8;
  const std::int64_t by_shared = m.device.smem_per_sm / (m.launch.shared_memory + kReservedSmemPerCta);
  const std::int64_t by_registers = m.device.registers_per_sm / (registers_a_thread * m.launch.threads);
  const std::int64_t by_threads = m.device.threads_per_sm / m.launch.threads;
  return static_cast<int>(std::clamp<std::int64_t>(std::min({by_shared, by_registers, by_threads}), 1, 32));
}

// One step of one block on each of the SM's units. Flash: all warps share the keys, each reads all of them.
// Split: every warp takes a step of its own keys.
void fill_step_clocks(Model* m) {
  const Candidate& c = m->c;
  const bool split = c.family == Family::kSplit;
  const double rows = double{1} * c.tile_m * (split ? c.warps : 1), keys = c.tile_n;
  const double kv_tile = 2 * keys * m->width() * (split ? c.warps : 1);
  const double matrix = 2 * rows * keys * m->width() / (m->device.tensor_flops / m->sms() / kClock);
  const double shared = (kv_tile * (split ? 2 : 1.05 * c.warps + 1) + 2 * rows * m->p.head_dim) / kSharedBytesAClock;
  const double softmax = rows * (keys * kClocksAScore + m->p.head_dim_v * kClocksAnOutput);
  m->busy_clocks = std::max({matrix, shared, softmax});
  m->other_clocks = matrix + shared + softmax - m->busy_clocks;
}

// Seconds for a step of each of `together` blocks that share an SM.
double step_seconds(const Model& m, int together) {
  const auto clocks = [&](int blocks) {
    const double warps = std::max(0.25, double{1} * blocks * m.c.warps / kSchedulers);  // a scheduler
    const double exposed = m.other_clocks * std::min(1.0, 0.55 / warps);
    // Fewer warps than schedulers leave units idle: a warp uses one scheduler's share of them.
    const double idle = std::max(1.0, 1 / warps);
    return blocks * (m.busy_clocks + exposed) * idle;
  };
  const double wait = m.c.family == Family::kFlash ? (m.c.stages == 1 ? 12 : 240) : 74;
  return std::max(clocks(together), clocks(1) + wait) / kClock;
}

// Bytes/s that `blocks` running blocks read from memory, each with its buffers in flight.
double memory_rate(const Model& m, double blocks) {
  const bool split = m.c.family == Family::kSplit;
  const double buffers = m.c.stages == 1 ? 0.5 : m.c.stages - 1;
  const double in_flight = buffers * 2 * m.c.tile_n * m.width() * (split ? m.c.warps : 1);
  const double busy = std::min(blocks, m.sms());
  const double one = std::min(kMostBytesAnSm, blocks / busy * in_flight / kMemoryLatency);
  return std::min(m.device.memory_bandwidth, busy * one);
}

double memory_seconds(const Model& m, double total_bytes) {
  const double slots = m.sms() * m.resident, each = total_bytes / m.blocks();
  const double full = std::floor(m.blocks() / slots), rest = m.blocks() - full * slots;
  double seconds = full * slots * each / memory_rate(m, slots);
  if (rest > 0) seconds += rest * each / memory_rate(m, rest);
  return seconds;
}

// Keys and values that every row tile of a swizzled group of heads passes.
double swizzle_bytes(const Model& m) {
  const double heads = std::ceil(static_cast<double>(head_swizzle(m.p, m.c)) * m.c.pack / m.p.group());
  return heads * m.kv_bytes() / (double{1} * m.p.batch * m.p.kv_heads);
}

// How often the keys come from memory: if those of a swizzled group of heads do not fit L2, every row tile reads them
// anew.
double key_reads(const Model& m) {
  const double fits = 0.6 * static_cast<double>(m.device.l2_bytes);
  if (m.c.head_swizzle == 1 || swizzle_bytes(m) <= fits) return 1;
  const double tiles = static_cast<double>(row_tiles(m.p, m.c));
  return std::max(1.0, tiles * m.steps.average / std::max(1.0, m.steps.most));
}

// Tiles that run together walk the keys together: each round of tiles reads them, not each tile.
double key_rounds(const Model& m) {
  const double rounds = m.blocks() / m.sms() * m.steps.average / std::max(1.0, m.steps.most);
  return std::min(key_reads(m), std::max(1.0, rounds));
}

// Blocks of equal work run in waves; under a causal mask the longest start first and the short ones fill the gaps.
double flash_compute(const Model& m) {
  const double each = m.blocks() / m.sms();
  if (!m.p.causal()) {
    const double count = std::ceil(each);
    const double full = std::floor(count / m.resident);
    const int rest = static_cast<int>(count - full * m.resident);
    return m.steps.most * (full * step_seconds(m, m.resident) + (rest > 0 ? step_seconds(m, rest) : 0));
  }
  const int together = static_cast<int>(std::clamp(std::ceil(each), 1.0, double{1} * m.resident));
  const double last_wave = (m.c.head_swizzle == 0 ? 0.25 : 0.5) * m.steps.average * step_seconds(m, 1);
  const double balanced = m.steps.average * std::max(each, 1.0) * step_seconds(m, together) / together + last_wave;
  return std::max(balanced, m.steps.most * step_seconds(m, 1));
}

double flash_seconds(const Model& m) {
  const double step_bytes = 2 * m.c.tile_n * m.width();
  const double l2 = m.blocks() * m.steps.average * step_bytes / (std::min(m.blocks(), m.sms()) * kL2BytesAnSm);
  const double memory = memory_seconds(m, bytes(m.p) + (key_reads(m) - 1) * m.kv_bytes());
  const double waves = std::ceil(m.blocks() / (m.sms() * m.resident));
  const double compute = flash_compute(m);
  const double longest = std::max({compute, l2, memory});
  return kLaunch + longest + kProlog * (1 + (waves - 1) / m.resident);
}

// Keys and values of a step of all a CTA's warpgroups.
double warpgroup_step_bytes(const Model& m) {
  const int key_columns = m.p.keys_transposed() ? m.p.head_dim : padded_columns(m.p.head_dim);
  return 2.0 * keys_a_step(m.c) * (key_columns + padded_columns(m.p.head_dim_v));
}

// A step of all a CTA's warpgroups, clocks: the exponentials of one run under the products of another, but not wholly.
double warpgroup_step(const Model& m) {
  const double scores = double{1} * m.c.tile_m * keys_a_step(m.c);
  const int warpgroups = m.c.warps / 4;
  const double rate = m.device.wgmma_flops / m.device.sms / kWarpgroupClock;
  const double products = kProductsShare * 2 * scores * m.width() / rate, softmax = scores * kClocksAnExponential;
  const double busy = std::max(products, softmax) + kExposed[warpgroups - 1] * std::min(products, softmax);
  const double moved = kClocksAKeyByte * warpgroup_step_bytes(m) * (m.c.cluster > 1 ? kShared : 1);
  const double step = busy + kStep + kStepAWarpgroup * warpgroups + moved;
  const double q_regs = 1 - kQRegsGain * m.c.q_regs * 16 / m.p.head_dim;
  const double weights = (m.c.ones_column != 0 ? kOnesColumn : 1) * (m.c.exp2_fma != 0 ? kExp2Fma : 1);
  return step * q_regs * weights * (m.c.stages > 2 ? kThirdStage : 1);
}

// Epilogue and prologue: from a tile's last step to the first of the next.
double tile_overhead(const Model& m) {
  const double keys = kTileAKey * m.c.tile_n * m.width();
  const double outputs = kTileAnOutput * m.p.head_dim_v * (m.c.tile_m / 64);
  const double leaving = m.c.out_parts == 0 ? kTileFromRegisters : m.c.out_parts > 1 ? kTileInParts : 0;
  return kTileOverhead + keys + outputs + leaving;
}

// Load imbalance under a mask, of what the longest tile has over the average: once at the end under the dynamic
// scheduler, at the end of each swizzled group of heads under the static one.
double imbalance(const Model& m) {
  if (!m.p.causal()) return 0;
  if (m.c.dynamic != 0) return kDynamicImbalance;
  return kStaticImbalance * static_cast<double>(head_groups(m.p, m.c) / head_swizzle(m.p, m.c));
}

// Tiles of equal work run in waves, whose last partial one stream-K may even out; under a causal mask long and short
// tiles do.
double warpgroup_seconds(const Model& m) {
  const double step = warpgroup_step(m), overhead = tile_overhead(m);
  const double share = m.launch.resident > 1 ? kBesideAnother : 1;
  const double each = m.blocks() / m.sms(), longest = m.steps.most * step + overhead;
  const bool even = m.p.causal() || m.c.stream_k != 0;
  const double idle =
      even ? imbalance(m) * (m.steps.most - m.steps.average) * step : (std::ceil(each) - each) * longest;
  const double work = share * (each * (m.steps.average * step + overhead) + idle);
  const double fixup = m.c.stream_k != 0 ? overhead + kFixupAnOutput * m.c.tile_m * m.p.head_dim_v : 0;
  const double compute = std::max(work, m.c.stream_k != 0 ? 0 : longest) + fixup + (m.c.dynamic != 0 ? kDynamic : 0);
  const double memory = (bytes(m.p) + (key_rounds(m) - 1) * m.kv_bytes()) / m.device.memory_bandwidth;
  const double seconds = compute / kWarpgroupClock;
  return kWarpgroupLaunch + std::max(seconds, memory) + kBesideMemory * std::min(seconds, memory);
}

// Across the block's warps in shared memory, then across blocks through L2 by the last to arrive.
double merge_seconds(const Model& m) {
  const double rows = m.c.tile_m, row_bytes = 4.0 * (m.p.head_dim_v + 2);
  double seconds = 2 * m.c.warps * rows * row_bytes / kSharedBytesAClock / kClock;
  if (m.c.splits == 1) return seconds;
  const double valid = std::min(rows, double{1} * m.p.q_len * m.c.pack);
  seconds += kArrive + m.c.splits * valid * row_bytes / kMostBytesAnSm;
  return seconds + 2 * m.blocks() * rows * row_bytes / (m.sms() * kL2BytesAnSm);
}

double split_seconds(const Model& m) {
  const double steps = std::ceil(std::ceil(m.steps.most / m.c.splits) / m.c.warps);  // of one warp
  const double count = std::ceil(m.blocks() / m.sms());
  const double full = std::floor(count / m.resident);
  const int rest = static_cast<int>(count - full * m.resident);
  const double compute = steps * (full * step_seconds(m, m.resident) + (rest > 0 ? step_seconds(m, rest) : 0));
  const double tiles = static_cast<double>(row_tiles(m.p, m.c));
  const double group_reads = tiles * m.p.group() / m.c.pack;  // of the same keys, from L2 after the first
  const double memory = memory_seconds(m, bytes(m.p));
  const double l2 = group_reads * m.kv_bytes() / (std::min(m.blocks(), m.sms()) * kL2BytesAnSm);
  const double waves = std::ceil(m.blocks() / (m.sms() * m.resident));
  // The chain of one warp's steps and the memory's pace overlap, but not wholly.
  const double longest = std::max({compute, l2, memory}), second = std::min(compute, memory);
  return kLaunch + longest + 0.19 * second + kProlog * (1 + (waves - 1) / m.resident) + merge_seconds(m);
}

// Threads run whole tiles; a small tile spends its time on widening 16-bit keys and on loop ends.
double host_seconds(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const LaunchPlan launch = plan(p, c);
  const Steps steps = steps_of(p, c);
  const double width = double{1} * p.head_dim + p.head_dim_v;
  const double flops_a_thread = device.tensor_flops / device.sms;
  const double rows = std::min(double{1} * c.tile_m, double{1} * p.q_len * c.pack);  // padding costs the host nothing
  const double efficiency = rows / (rows + 8) * c.tile_n / (c.tile_n + 24.0);
  const double products = 2.0 * rows * c.tile_n * width / efficiency;
  const double softmax = 60.0 * rows * c.tile_n, widening = 24.0 * c.tile_n * width;
  const double step = (products + softmax + widening) / flops_a_thread;
  const double share = std::ceil(steps.average / c.splits);
  const double blocks = static_cast<double>(launch.blocks);
  // Stolen work evens out unequal tiles; equal ones run in rounds.
  const double rounds = p.causal() ? std::max(1.0, blocks / device.sms + 0.5) : std::ceil(blocks / device.sms);
  const double memory = bytes(p) / device.memory_bandwidth;
  const double merge = c.splits > 1 ? 2e-6 + 8.0 * blocks * c.tile_m * p.head_dim_v / device.memory_bandwidth : 0;
  return 3e-6 + std::max(rounds * (share * step + 0.5e-6), memory) + merge;
}

}  // namespace

double predict_us(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  if (device.kind == DeviceKind::kHost) return 1e6 * host_seconds(problem, candidate, device);
  Model model{problem, candidate, device};
  if (candidate.family == Family::kWarpgroup) return 1e6 * warpgroup_seconds(model);
  model.resident = resident_blocks(model);
  fill_step_clocks(&model);
  return 1e6 * (candidate.family == Family::kFlash ? flash_seconds(model) : split_seconds(model));
}

double moved_bytes(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  if (device.kind == DeviceKind::kHost) return 0;
  const Model model{problem, candidate, device};
  const bool warpgroup = candidate.family == Family::kWarpgroup;
  const double step = warpgroup ? warpgroup_step_bytes(model) : 2 * candidate.tile_n * model.width();
  const double from_memory = warpgroup ? key_rounds(model) : key_reads(model);
  return model.blocks() / candidate.splits * model.steps.average * step +
         kMemoryOverL2 * from_memory * model.kv_bytes();
}

}  // namespace gqa

// prune.cc: why a candidate cannot run, or would be foolish to compile; see space.h.
// Owns: reject_reason and its rules, each with its own words.
// Never: estimates time (cost.cc does).
// Threads: pure functions.
#include <algorithm>

#include "search/families/resources.h"
#include "search/families/space.h"
#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr int kMostRegisters = 255;
constexpr std::int64_t kMostGridBlocks = 2147483647;  // of a 1-D grid
constexpr int kFewSplitRows = 64, kMostSplitRows = 512;
constexpr int kTilesThatNeedNoPacking = 16;
constexpr int kWarpgroupRows = 64;      // of a wgmma
constexpr int kMostWgmmaColumns = 256;  // of a wgmma
constexpr int kWgmmaOperands = 30;      // registers beside a wgmma's accumulators
constexpr int kPanelColumns = 64;       // a swizzled row of shared memory: of transposed keys, keys
constexpr std::string_view kWgmmaArch = "sm_90a";

std::string number(std::int64_t value) { return grouped(value); }

int consumers(const Candidate& c) { return c.warps / 4; }

std::string meaningless(const Candidate& c) {
  if (c.tile_m < 16 || c.tile_m % 16 != 0) return "tile of " + number(c.tile_m) + " rows: expected a multiple of 16";
  if (c.tile_n < 16 || c.tile_n % 16 != 0) return "step of " + number(c.tile_n) + " keys: expected a multiple of 16";
  if (c.warps < 1 || c.warps > 32) return number(c.warps) + " warps: expected 1 to 32";
  if (c.pack < 1) return "pack of " + number(c.pack) + ": expected at least 1";
  if (c.splits < 1) return number(c.splits) + " splits: expected at least 1";
  if (c.head_swizzle < 0) return "head_swizzle=" + number(c.head_swizzle) + ": expected at least 0";
  return "";
}

std::string wrong_for_flash(const Candidate& c) {
  const int warp_rows = c.tile_m / c.warps;
  if (c.tile_m % c.warps != 0 || (warp_rows != 16 && warp_rows != 32)) {
    return number(c.tile_m) + " rows over " + number(c.warps) + " warps: flash gives a warp 16 or 32";
  }
  if (c.stages < 1 || c.stages > 3) return number(c.stages) + " stages: flash has 1 to 3";
  if (c.splits != 1) return number(c.splits) + " splits: flash has 1";
  return "";
}

std::string wrong_for_split(const Candidate& c) {
  if (c.tile_m > kFewSplitRows) return "tile of " + number(c.tile_m) + " rows: split has at most 64";
  if (c.stages < 2 || c.stages > 6) return number(c.stages) + " stages: split has 2 to 6";
  if (c.warps > 8) return number(c.warps) + " warps: split has at most 8";
  return "";
}

struct FieldRange {
  const char* what;
  std::int32_t Candidate::*field;
  int least, most;
};
constexpr FieldRange kWarpgroupRanges[] = {{"stages", &Candidate::stages, 1, 4},
                                           {"dynamic", &Candidate::dynamic, 0, 1},
                                           {"out", &Candidate::out_parts, 0, 4},
                                           {"ones_column", &Candidate::ones_column, 0, 1},
                                           {"folded_scale", &Candidate::folded_scale, 0, 1},
                                           {"exp2_fma", &Candidate::exp2_fma, 0, 32},
                                           {"queries", &Candidate::queries, 1, 2},
                                           {"q_regs", &Candidate::q_regs, 0, 16},
                                           {"cluster", &Candidate::cluster, 1, 2},
                                           {"stream_k", &Candidate::stream_k, 0, 1 << 16}};

std::string wrong_for_warpgroup(const Candidate& c) {
  if (c.tile_m != 64 && c.tile_m != 128 && c.tile_m != 192) {
    return "tile of " + number(c.tile_m) + " rows: warpgroup has 64, 128 or 192";
  }
  if (c.tile_n > kMostWgmmaColumns) {
    return "step of " + number(c.tile_n) + " keys: wgmma takes at most " + number(kMostWgmmaColumns);
  }
  const bool shares_keys = c.tile_m == kWarpgroupRows && c.warps == 2 * c.tile_m / 16;
  if (c.warps != c.tile_m / 16 && !shares_keys) {
    return number(c.warps) + " warps for " + number(c.tile_m) +
           " rows: warpgroup gives a warp 16, or two warpgroups the same 64";
  }
  for (const FieldRange& range : kWarpgroupRanges) {
    const int given = c.*range.field;
    if (given >= range.least && given <= range.most) continue;
    return std::string(range.what) + "=" + number(given) + ": warpgroup has " + number(range.least) + " to " +
           number(range.most);
  }
  if (shares_keys && c.out_parts != 1) return "two warpgroups on the same rows without out=1: they hand over beside it";
  if (shares_keys && c.stages % 2 != 0)
    return number(c.stages) + " stages for two warpgroups on the same rows: expected as many for each";
  if (c.ones_column != 0 && (shares_keys || c.out_parts != 1 || c.tile_n % 32 != 0 || c.stages < 2))
    return "a ones column beside halves of " + number(c.tile_n) + " keys, " + number(c.stages) +
           " stages: expected a multiple of 32, 2 stages or more, out=1 and no shared rows";
  if (c.exp2_fma != 0 && (c.ones_column == 0 || c.exp2_fma == 1))
    return "exp2_fma=" + number(c.exp2_fma) +
           ": expected ones_column=1, since weights are then summed as rounded, and at least 2";
  if (c.folded_scale != 0 && c.ones_column == 0) return "folded_scale=1: expected ones_column=1, whose ones it takes";
  if (c.cluster != 1 && c.tile_m == kWarpgroupRows)
    return "cluster=" + number(c.cluster) + ": expected one CTA an SM, and so 128 rows or more";
  if (c.stream_k != 0 && (c.dynamic != 0 || c.tile_m == kWarpgroupRows))
    return "stream_k=" + number(c.stream_k) + ": expected dynamic=0, whose last wave it shares, and 128 rows or more";
  if (c.splits != 1) return number(c.splits) + " splits: warpgroup has 1";
  if (kWarpgroupRows % c.pack != 0) {
    return "pack of " + number(c.pack) + " does not divide the " + number(kWarpgroupRows) + " rows of a warpgroup";
  }
  return "";
}

std::string wrong_for_host(const Candidate& c) {
  if (c.family == Family::kWarpgroup) return "warpgroup: the host has no wgmma";
  if (c.warps != 1) return number(c.warps) + " warps: the host has 1";
  if (c.stages != 1) return number(c.stages) + " stages: the host has 1";
  if (c.family == Family::kFlash && c.splits != 1) return number(c.splits) + " splits: flash has 1";
  return "";
}

// A split leaves at least one CTA nothing to do, or shares fewer query rows than flash has tiles for.
std::string wrong_split(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  if (c.head_swizzle != 0) return "head_swizzle=" + number(c.head_swizzle) + ": split has none";
  const std::int64_t rows = std::int64_t{p.q_len} * c.pack;
  if (const std::int64_t most = most_split_rows(p, device); rows > most) {
    return number(rows) + " query rows a head group: split takes at most " + number(most);
  }
  const std::int64_t steps = (p.kv_len + c.tile_n - 1) / c.tile_n;
  const std::int64_t share = (steps + c.splits - 1) / c.splits;
  const std::int64_t used = (steps + share - 1) / share;
  if (used < c.splits) {
    return number(c.splits) + " splits of " + number(p.kv_len) + " keys leave " + number(c.splits - used) +
           " without keys";
  }
  return "";
}

// Half the rows or keys of the only tile would be padding, and a smaller tile is in the list.
std::string oversized(const Problem& p, const Candidate& c, bool host) {
  const std::int64_t rows = std::int64_t{p.q_len} * c.pack;
  const int least_rows = host && c.family == Family::kFlash ? 32 : 16;
  if (c.tile_m > least_rows && c.tile_m / 2 >= rows) {
    return "tile of " + number(c.tile_m) + " rows for " + number(rows) + " query rows";
  }
  const int least_keys = host ? 64 : 32;
  if (c.tile_n > least_keys && c.tile_n / 2 >= p.kv_len) {
    return "step of " + number(c.tile_n) + " keys for " + number(p.kv_len) + " keys";
  }
  return "";
}

std::string useless_pack(const Problem& p, const Candidate& c) {
  if (p.group() % c.pack != 0) {
    return "pack of " + number(c.pack) + " does not divide the group of " + number(p.group()) + " query heads";
  }
  if (c.family != Family::kSplit && c.pack > 1 && p.q_len / c.tile_m >= kTilesThatNeedNoPacking) {
    return "packing " + number(c.pack) + " heads gains nothing: one head fills " + number(p.q_len / c.tile_m) +
           " tiles";
  }
  return "";
}

// The ones stand beside one panel of values; a half of the keys is rows of a block.
std::string wrong_for_ones_column(const Problem& p, const Candidate& c) {
  if (c.ones_column == 0) return "";
  if (p.lse) return "ones_column=1 sums rounded weights: too coarse for the log-sum-exp that is asked for";
  if (p.head_dim_v != kPanelColumns)
    return "ones_column=1 beside values of head_dim_v " + number(p.head_dim_v) + ": expected 64";
  if (p.keys_transposed()) return "ones_column=1 with halves of transposed keys: halves are rows";
  return "";
}

// Q times the scale is rounded once more, as coarsely as its type is.
std::string wrong_for_folded_scale(const Problem& p, const Candidate& c) {
  if (c.folded_scale == 0 || p.dtype == DType::kF16) return "";
  return "folded_scale=1 of " + std::string(name(p.dtype)) +
         " queries: expected f16, whose error in scores is an eighth";
}

std::string wrong_for_q_regs(const Problem& p, const Candidate& c) {
  if (c.q_regs * 16 <= p.head_dim) return "";
  return "q_regs=" + number(c.q_regs) + " times 16 columns of Q: head_dim is " + number(p.head_dim);
}

// Rows for one CTA only.
std::string useless_cluster(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  if (c.cluster == 1) return "";
  if (device.sms < c.cluster) return "cluster of " + number(c.cluster) + " on " + number(device.sms) + " SMs";
  const std::int64_t rows = std::int64_t{p.q_len} * c.pack;
  return rows > c.tile_m ? "" : "cluster of " + number(c.cluster) + " tiles for " + number(rows) + " query rows";
}

std::string wrong_for_transposed_keys(const Problem& p, const Candidate& c, bool host) {
  if (!p.keys_transposed()) return "";
  if (host) return "keys given as (head_dim, keys): the host reads a key's elements side by side";
  if (c.family == Family::kWarpgroup && c.tile_n % kPanelColumns != 0) {
    return "step of " + number(c.tile_n) + " keys: transposed keys come in panels of " + number(kPanelColumns);
  }
  return "";
}

// Pages, lengths of their own and windows: the kernels of few query rows have them, and the host's.
std::string wrong_for_cache(const Problem& p, const Candidate& c, bool host) {
  if (host || c.family == Family::kSplit) return "";
  const std::string family(name(c.family));
  if (p.paged()) return "keys in pages: " + family + " reads dense keys";
  if (p.lengths_differ()) return "each sequence has its own length: " + family + " takes one for all";
  return p.windowed() ? "a window: " + family + " walks all keys, or those that a causal mask shows" : "";
}

// TMA reads and writes whole 16-byte pieces, through maps of the tensors.
std::string not_for_tma(const Problem& p, const DeviceSpec& device) {
  if (device.arch != kWgmmaArch) {
    return "warpgroup needs wgmma, which only " + std::string(kWgmmaArch) + " has; the device is " + device.arch;
  }
  if (p.align != 16) return "rows aligned to " + number(p.align) + " bytes: TMA needs 16";
  if (!p.tma) return "strides that no tensor map can express: TMA needs them at least 0 and below 2^40 bytes";
  return "";
}

std::string over_shared_memory(const LaunchPlan& launch, const DeviceSpec& device) {
  if (launch.shared_memory <= device.smem_per_block) return "";
  return "needs " + number(launch.shared_memory) + " bytes of shared memory, the device has " +
         number(device.smem_per_block);
}

std::string over_warpgroup_limits(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const LaunchPlan launch = plan(p, c);
  if (std::string reason = over_shared_memory(launch, device); !reason.empty()) return reason;
  const std::int64_t together = launch.resident * (launch.shared_memory + kReservedSmemPerCta);
  if (together > device.smem_per_sm) {
    return number(launch.resident) + " blocks an SM need " + number(together) + " bytes of shared memory, it has " +
           number(device.smem_per_sm);
  }
  const int needed = registers(p, c), most = consumer_registers(c);
  if (needed > most) {
    return "needs about " + number(needed) + " registers a consumer thread, " + number(consumers(c)) +
           " consumer warpgroups leave it " + number(most);
  }
  // The accumulators of one wgmma must fit what a thread is launched with.
  const int launched = device.registers_per_sm / (launch.threads * launch.resident);
  if (const int least = std::max(p.head_dim_v, c.tile_n) / 2 + kWgmmaOperands; least > launched) {
    return "a wgmma needs about " + number(least) + " registers, a thread is launched with " + number(launched);
  }
  return "";
}

std::string over_cuda_limits(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const LaunchPlan launch = plan(p, c);
  if (std::string reason = over_shared_memory(launch, device); !reason.empty()) return reason;
  const int needed = registers(p, c);
  if (needed > kMostRegisters) {
    return "needs about " + number(needed) + " registers a thread, a thread has " + number(kMostRegisters);
  }
  const std::int64_t block_registers = round_up(needed, 8) * launch.threads;
  if (block_registers > device.registers_per_sm) {
    return "needs about " + number(block_registers) + " registers a block, the device has " +
           number(device.registers_per_sm);
  }
  const int most_threads = std::min(1024, device.threads_per_sm);
  if (launch.threads > most_threads) {
    return "needs " + number(launch.threads) + " threads a block, the device has " + number(most_threads);
  }
  return "";
}

// A thread's tile on the host: queries, one step of keys and values, scores and accumulators as float32.
std::string over_host_cache(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const std::int64_t bytes = 4LL * c.tile_n * (p.head_dim + p.head_dim_v) +
                             4LL * c.tile_m * (p.head_dim + p.head_dim_v) + 4LL * c.tile_m * c.tile_n;
  const std::int64_t most = std::max<std::int64_t>(device.smem_per_block, 1 << 20);
  if (bytes <= most) return "";
  return "works on " + number(bytes) + " bytes a thread, a core's cache holds " + number(most);
}

std::string wrong_shape(const Candidate& c, bool host) {
  if (std::string reason = meaningless(c); !reason.empty()) return reason;
  if (host) return wrong_for_host(c);
  switch (c.family) {
    case Family::kFlash:
      return wrong_for_flash(c);
    case Family::kSplit:
      return wrong_for_split(c);
    case Family::kWarpgroup:
      return wrong_for_warpgroup(c);
  }
  return "unknown family";
}

constexpr double kWholeWaves = 0.995;  // of their places in use

// Stream-K costs a fix-up in the workspace: the last wave must be idle for more than that.
std::string useless_stream_k(const Problem& p, const Candidate& c) {
  if (c.stream_k == 0) return "";
  if (p.causal())
    return "stream_k=" + number(c.stream_k) + " under a causal mask: its last tiles are the shortest ones";
  if (p.head_dim_v >= 256 && c.tile_n > 64)
    return "stream_k=" + number(c.stream_k) + " with steps of " + number(c.tile_n) + " keys: beside " +
           number(p.head_dim_v) + " columns of out they leave too few registers for it";
  const std::int64_t tiles = plan(p, c).blocks, waves = (tiles + c.stream_k - 1) / c.stream_k;
  if (static_cast<double>(tiles) > kWholeWaves * static_cast<double>(waves * c.stream_k))
    return "stream_k=" + number(c.stream_k) + ": " + number(tiles) + " tiles nearly fill " + number(waves) + " waves";
  return "";
}

std::string unfit_for_problem(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const bool host = device.kind == DeviceKind::kHost;
  if (std::string reason = useless_pack(p, c); !reason.empty()) return reason;
  if (std::string reason = oversized(p, c, host); !reason.empty()) return reason;
  if (std::string reason = useless_cluster(p, c, device); !reason.empty()) return reason;
  if (std::string reason = useless_stream_k(p, c); !reason.empty()) return reason;
  return c.family == Family::kSplit ? wrong_split(p, c, device) : "";
}

}  // namespace

std::int64_t most_split_rows(const Problem& p, const DeviceSpec& device) {
  const std::int64_t flash_tiles = (p.q_len + kFewSplitRows - 1) / kFewSplitRows * p.q_heads * p.batch;
  return device.kind == DeviceKind::kCuda && 2 * flash_tiles < device.sms ? kMostSplitRows : kFewSplitRows;
}

std::string reject_reason(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  const bool host = device.kind == DeviceKind::kHost;
  const bool warpgroup = candidate.family == Family::kWarpgroup;
  if (std::string reason = wrong_shape(candidate, host); !reason.empty()) return reason;
  if (std::string reason = wrong_for_transposed_keys(problem, candidate, host); !reason.empty()) return reason;
  if (std::string reason = wrong_for_cache(problem, candidate, host); !reason.empty()) return reason;
  if (std::string reason = wrong_for_ones_column(problem, candidate); !reason.empty()) return reason;
  if (std::string reason = wrong_for_folded_scale(problem, candidate); !reason.empty()) return reason;
  if (std::string reason = wrong_for_q_regs(problem, candidate); !reason.empty()) return reason;
  if (warpgroup) {
    if (std::string reason = not_for_tma(problem, device); !reason.empty()) return reason;
  }
  if (std::string reason = unfit_for_problem(problem, candidate, device); !reason.empty()) return reason;
  const std::int64_t blocks = plan(problem, candidate).blocks;
  if (blocks > kMostGridBlocks) return number(blocks) + " blocks: a grid has at most " + number(kMostGridBlocks);
  if (host) return over_host_cache(problem, candidate, device);
  return warpgroup ? over_warpgroup_limits(problem, candidate, device) : over_cuda_limits(problem, candidate, device);
}

}  // namespace gqa

// space.cc: see space.h. The tables below are the space; what follows only spells them out for a problem.
#include "search/families/space.h"

#include <algorithm>
#include <iterator>

#include "search/families/resources.h"

namespace gqa {
namespace {

struct Tile {
  int m, n, warps, stages;
};

// Warps split the rows: 16 or 32 rows a warp. 32 halve the shared-memory reads of keys and values, 16 leave registers
// for wide heads. One stage leaves shared memory for a second CTA, which hides the loads instead.
constexpr Tile kFlashTiles[] = {
    // 32 rows a warp
    {128, 32, 4, 2},
    {128, 48, 4, 2},
    {128, 64, 4, 1},
    {128, 64, 4, 2},
    {128, 64, 4, 3},
    {128, 80, 4, 2},
    {128, 128, 4, 1},
    {128, 128, 4, 2},
    {64, 32, 2, 2},
    {64, 64, 2, 1},
    {64, 64, 2, 2},
    {64, 128, 2, 2},
    {32, 64, 1, 2},
    {256, 32, 8, 2},
    {256, 64, 8, 1},
    {256, 64, 8, 2},
    {192, 64, 6, 2},
    {192, 96, 6, 2},
    {96, 64, 3, 2},
    // 16 rows a warp
    {128, 32, 8, 2},
    {128, 64, 8, 1},
    {128, 64, 8, 2},
    {128, 64, 8, 3},
    {128, 96, 8, 2},
    {128, 128, 8, 1},
    {128, 128, 8, 2},
    {64, 16, 4, 2},
    {64, 32, 4, 2},
    {64, 32, 4, 3},
    {64, 64, 4, 1},
    {64, 64, 4, 2},
    {64, 64, 4, 3},
    {64, 96, 4, 2},
    {64, 128, 4, 1},
    {64, 128, 4, 2},
    {192, 64, 12, 2},
    {32, 32, 2, 3},
    {32, 64, 2, 2},
    {32, 64, 2, 3},
    {32, 128, 2, 2},
    {16, 32, 1, 3},
    {16, 64, 1, 2},
    {16, 64, 1, 3},
    {16, 128, 1, 2},
};

// Every warp holds all m rows and walks keys of its own: n a step, in a private pipeline.
constexpr Tile kSplitTiles[] = {
    {16, 16, 1, 4}, {16, 16, 2, 4}, {16, 16, 4, 3}, {16, 16, 4, 4}, {16, 16, 4, 6}, {16, 16, 8, 3}, {16, 16, 8, 4},
    {16, 32, 1, 3}, {16, 32, 1, 5}, {16, 32, 2, 2}, {16, 32, 2, 3}, {16, 32, 2, 4}, {16, 32, 4, 2}, {16, 32, 4, 3},
    {16, 32, 4, 4}, {16, 32, 8, 2}, {16, 32, 8, 3}, {16, 64, 1, 2}, {16, 64, 1, 3}, {16, 64, 1, 4}, {16, 64, 2, 2},
    {16, 64, 2, 3}, {16, 64, 4, 2}, {16, 64, 4, 3}, {16, 64, 8, 2}, {32, 16, 4, 3}, {32, 16, 4, 4}, {32, 32, 2, 3},
    {32, 32, 4, 2}, {32, 32, 4, 3}, {32, 32, 8, 2}, {32, 64, 2, 2}, {32, 64, 2, 3}, {32, 64, 4, 2}, {64, 16, 4, 3},
    {64, 16, 8, 2}, {64, 32, 2, 2}, {64, 32, 4, 2}, {64, 32, 4, 3}, {64, 32, 8, 2},
};

bool is_bf16(const Problem& p) { return p.dtype == DType::kBF16; }
// With a ones column: walks for which three buffers of keys are faster than four, and those that a folded scale pays
// for (docs/performance.md).
bool has_many_steps(const Problem& p) { return !p.causal() && p.kv_len >= (is_bf16(p) ? 4096 : 8192); }
bool pays_for_folded_scale(const Problem& p) { return !is_bf16(p) && p.kv_len >= (p.causal() ? 4096 : 2048); }

struct WarpgroupTile {
  int m, n, stages;
  int out_buffer;      // 1: for as much of out as fits
  int key_shares = 1;  // warpgroups on the same rows
  int ones_column = 0;
  int queries = 1;
  int exp2_fma = 0;
  int folded_scale = 0;
  bool (*is_for)(const Problem&) = nullptr;  // or for any
};

// m / 64 warpgroups. Wide tiles read the keys less often; 64 rows, two CTAs an SM, balance short problems. What
// no head dim wins with is not here (docs/performance.md). Two warpgroups on 64 rows halve the longest chain of steps.
constexpr WarpgroupTile kWarpgroupTiles[] = {
    {192, 128, 4, 1, 1, 1, 2, 4, 0, [](const Problem& p) { return is_bf16(p) && !has_many_steps(p); }},
    {192, 128, 3, 1, 1, 1, 2, 4, 0, [](const Problem& p) { return is_bf16(p) && has_many_steps(p); }},
    {192, 128, 4, 1, 1, 1, 2, 0, 0, [](const Problem& p) { return !is_bf16(p) && !pays_for_folded_scale(p); }},
    {192, 128, 4, 1, 1, 1, 2, 8, 1, [](const Problem& p) { return pays_for_folded_scale(p) && !has_many_steps(p); }},
    {192, 128, 3, 1, 1, 1, 2, 8, 1, [](const Problem& p) { return pays_for_folded_scale(p) && has_many_steps(p); }},
    {192, 128, 3, 1},
    {192, 128, 2, 1},
    {192, 112, 2, 1},
    {192, 96, 2, 1},
    {192, 80, 3, 1},
    {192, 80, 2, 1},
    {192, 64, 4, 1},
    {128, 192, 2, 1},
    {128, 160, 2, 1},
    {128, 128, 2, 1},
    {128, 96, 2, 1},
    {128, 80, 2, 0},
    {128, 64, 2, 1},
    {64, 128, 2, 0},
    {64, 80, 2, 0},
    {64, 64, 3, 0},
    {64, 64, 2, 0},
    {64, 64, 4, 1, 2},
    {64, 128, 2, 1, 2},
    {64, 128, 4, 1, 2},
};

// The host: one thread a tile, no pipeline.
constexpr int kHostFlashRows[] = {32, 64, 128, 256};
constexpr int kHostSplitRows[] = {16, 32, 64};
constexpr int kHostKeys[] = {64, 128, 256, 512};

// How many times over the grid of a split fills the SMs; 1/2 leaves more keys a CTA.
constexpr double kSplitWaves[] = {0.5, 1, 2, 3, 4, 8};
constexpr int kMostKeySplits = 128;
constexpr int kPackedSplitRows = 64;  // into which as many heads of a group as fit are packed
constexpr int kFewestKeysAWarp = 32;
constexpr int kMostHeadSwizzle = 1 << 20;  // head groups walked together
constexpr int kLeastQRegsHeadDim = 128;    // of Q in registers

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int by = 1; by <= number; ++by) {
    if (number % by == 0) found.push_back(by);
  }
  return found;
}

Candidate candidate_of(Family family, const Tile& tile, int pack) {
  Candidate c;
  c.family = family;
  c.tile_m = tile.m;
  c.tile_n = tile.n;
  c.warps = tile.warps;
  c.stages = tile.stages;
  c.pack = pack;
  return c;
}

// Where all tiles are alike and the keys stay in L2, the order changes nothing.
bool order_matters(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  if (row_tiles(p, c) == 1 || std::int64_t{p.batch} * p.q_heads == c.pack) return false;
  const double kv_bytes = 2.0 * p.batch * p.kv_len * p.kv_heads * (p.head_dim + p.head_dim_v);
  return p.causal() || kv_bytes > static_cast<double>(device.l2_bytes);
}

void add_flash(const Problem& p, const Tile& tile, const DeviceSpec& device, std::vector<Candidate>* found) {
  for (const int pack : divisors(p.group())) {
    // Where one head fills a tile, packing all of a group's heads or none says it all.
    if (pack != 1 && pack != p.group() && p.q_len >= tile.m) continue;
    Candidate c = candidate_of(Family::kFlash, tile, pack);
    found->push_back(c);
    if (device.kind == DeviceKind::kHost || !order_matters(p, c, device)) continue;
    c.head_swizzle = 1;
    found->push_back(c);
  }
}

// The tile scheduler, the CTAs of a cluster, and whether the last partial wave goes by stream-K.
struct Schedule {
  int dynamic, cluster;
  bool stream_k = false;
};
constexpr Schedule kSchedules[] = {{0, 1}, {1, 1}, {0, 2}, {1, 2}, {0, 1, true}, {0, 2, true}};

// Of out, so that a buffer for one of them fits beside the keys; 1 where none does.
int fewest_parts(const Problem& p, Candidate c, const DeviceSpec& device) {
  const int panels = padded_columns(p.head_dim_v) / 64;
  for (c.out_parts = 1; c.out_parts <= panels; ++c.out_parts) {
    if (plan(p, c).shared_memory <= device.smem_per_block) return c.out_parts;
  }
  return 1;
}

Candidate candidate_of(const Problem& p, const WarpgroupTile& tile, int pack, Schedule schedule,
                       const DeviceSpec& device) {
  Candidate c =
      candidate_of(Family::kWarpgroup, Tile{tile.m, tile.n, tile.m / 16 * tile.key_shares, tile.stages}, pack);
  c.dynamic = schedule.dynamic;
  c.cluster = schedule.cluster;
  c.stream_k = schedule.stream_k ? device.sms / schedule.cluster : 0;
  c.out_parts = tile.out_buffer;
  c.ones_column = tile.ones_column;
  c.queries = tile.queries;
  c.exp2_fma = tile.exp2_fma;
  c.folded_scale = tile.folded_scale;
  if (p.head_dim >= kLeastQRegsHeadDim && tile.m > 64) c.q_regs = q_regs_that_fit(p, c);
  if (tile.out_buffer != 0 && tile.m > 64) c.out_parts = fewest_parts(p, c, device);
  return c;
}

// What the keys and values of heads walked together fill; more than L2 too, since fewer groups leave less imbalance.
constexpr int kHalvesOfL2[] = {1, 4};

// Head groups whose keys and values fill so many halves of L2 together; 0 where all of them do.
int swizzle_that_fits_l2(const Problem& p, const Candidate& c, const DeviceSpec& device, int halves) {
  const std::int64_t kv_bytes = 2LL * p.kv_len * (p.head_dim + p.head_dim_v);  // of a key/value head
  const std::int64_t groups = head_groups(p, c);
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.kv_heads;
  if (kv_heads <= device.l2_bytes / kv_bytes) return 0;
  const std::int64_t kv_heads_a_half = std::max<std::int64_t>(1, device.l2_bytes / 2 / kv_bytes);
  const std::int64_t heads = halves * kv_heads_a_half * (p.group() / c.pack);
  return heads < groups ? static_cast<int>(std::min<std::int64_t>(heads, kMostHeadSwizzle)) : 0;
}

// All heads together, and L2-sized groups of them.
std::vector<int> swizzles_of(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  std::vector<int> swizzles = {0};
  for (const int halves : kHalvesOfL2) {
    if (const int heads = swizzle_that_fits_l2(p, c, device, halves); heads != 0) swizzles.push_back(heads);
  }
  return swizzles;
}

// Clusters do as well under the static scheduler as under the dynamic one, but for swizzled heads whose tiles a mask
// makes unequal: those leave its rounds uneven.
bool pays(const Problem& p, Schedule schedule, const std::vector<int>& swizzles) {
  if (schedule.dynamic == 0 || schedule.cluster == 1) return true;
  const bool unequal = p.causal() && p.q_len >= p.kv_len / 2;
  return unequal && swizzles.size() > 1;
}

// Packed heads share a tile's keys, and a tile of fewer positions sees fewer keys that the mask hides. A warpgroup's
// rows of out leave in whole positions.
void add_warpgroup(const Problem& p, const WarpgroupTile& tile, const DeviceSpec& device,
                   std::vector<Candidate>* found) {
  if (tile.is_for != nullptr && !tile.is_for(p)) return;
  for (const int pack : divisors(p.group())) {
    if (64 % pack != 0) continue;
    for (const Schedule schedule : kSchedules) {
      Candidate c = candidate_of(p, tile, pack, schedule, device);
      const std::vector<int> swizzles = swizzles_of(p, c, device);
      if (!pays(p, schedule, swizzles)) continue;
      for (const int heads : swizzles) {
        c.head_swizzle = heads;
        found->push_back(c);
      }
    }
  }
}

// The largest divisor of the group whose packed rows are at most `rows`; 1 where there is none.
int largest_pack(const Problem& p, int rows) {
  int best = 1;
  for (const int pack : divisors(p.group())) {
    if (std::int64_t{p.q_len} * pack <= rows) best = pack;
  }
  return best;
}

// Shares are whole steps of keys, so that the last split is the only short one and none is empty.
int even_splits(std::int64_t steps, std::int64_t splits) {
  splits = std::clamp<std::int64_t>(splits, 1, steps);
  const std::int64_t share = (steps + splits - 1) / splits;
  return static_cast<int>((steps + share - 1) / share);
}

std::vector<int> split_counts(const Problem& p, const Candidate& c, const DeviceSpec& device) {
  const std::int64_t steps = (p.kv_len + c.tile_n - 1) / c.tile_n;
  const std::int64_t keys_a_split = std::int64_t{c.warps} * std::max(c.tile_n, kFewestKeysAWarp);
  const std::int64_t most = std::clamp<std::int64_t>(p.kv_len / keys_a_split, 1, kMostKeySplits);
  const double tiles = static_cast<double>(plan(p, c).blocks);
  std::vector<int> counts = {1};
  for (const double waves : kSplitWaves) {
    const auto wanted = static_cast<std::int64_t>(waves * device.sms / tiles);
    counts.push_back(even_splits(steps, std::clamp<std::int64_t>(wanted, 1, most)));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

void add_split(const Problem& p, const Tile& tile, const DeviceSpec& device, std::vector<Candidate>* found) {
  const int fits_tile = largest_pack(p, tile.m), most = largest_pack(p, kPackedSplitRows);
  for (const int pack : {fits_tile, most}) {
    Candidate c = candidate_of(Family::kSplit, tile, pack);
    for (const int splits : split_counts(p, c, device)) {
      c.splits = splits;
      found->push_back(c);
    }
    if (fits_tile == most) return;
  }
}

std::vector<Candidate> cuda_candidates(const Problem& p, const DeviceSpec& device) {
  std::vector<Candidate> found;
  if (device.wgmma_flops > 0) {
    for (const WarpgroupTile& tile : kWarpgroupTiles) add_warpgroup(p, tile, device, &found);
  }
  for (const Tile& tile : kFlashTiles) add_flash(p, tile, device, &found);
  if (p.q_len > most_split_rows(p, device)) return found;
  for (const Tile& tile : kSplitTiles) add_split(p, tile, device, &found);
  return found;
}

std::vector<Candidate> host_candidates(const Problem& p, const DeviceSpec& device) {
  std::vector<Candidate> found;
  for (const int n : kHostKeys) {
    for (const int m : kHostFlashRows) add_flash(p, {m, n, 1, 1}, device, &found);
    if (p.q_len > most_split_rows(p, device)) continue;
    for (const int m : kHostSplitRows) add_split(p, {m, n, 1, 1}, device, &found);
  }
  return found;
}

bool better(const Ranked& a, const Ranked& b) {
  return a.predicted_us != b.predicted_us ? a.predicted_us < b.predicted_us : a.candidate < b.candidate;
}

}  // namespace

Space enumerate(const Problem& problem, const DeviceSpec& device) {
  Space space;
  const bool host = device.kind == DeviceKind::kHost;
  for (const Candidate& c : host ? host_candidates(problem, device) : cuda_candidates(problem, device)) {
    if (std::string reason = reject_reason(problem, c, device); !reason.empty()) {
      space.rejected.push_back({c, std::move(reason)});
    } else {
      space.ranked.push_back({c, predict_us(problem, c, device)});
    }
  }
  std::sort(space.ranked.begin(), space.ranked.end(), better);
  return space;
}

}  // namespace gqa

// tiles.cc: which candidates the family has; see wgmma_flash.h. The table is the space; what follows only spells it out
// for a problem. Adding a tile is one line.
#include <algorithm>

#include "search/families/limits.h"
#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

using Softmax = WgmmaFlash::Softmax;

struct Tile {
  int m, n, stages;
  bool out_buffer;     // for as much of out as fits
  int key_shares = 1;  // warpgroups on the same rows
  Softmax softmax = Softmax::kOnline;
  int queries = 1;
};

// m / 64 warpgroups. Wide tiles read the keys less often; 64 rows, two CTAs an SM, balance short problems. What
// no head dim wins with is not here (docs/performance.md). Two warpgroups on 64 rows halve the longest chain of steps.
constexpr Tile kTiles[] = {
    {192, 128, 4, true, 1, Softmax::kOnesColumn, 2},
    {192, 128, 3, true, 1, Softmax::kOnesColumn, 2},
    {192, 128, 3, true},
    {192, 128, 2, true},
    {192, 112, 2, true},
    {192, 96, 2, true},
    {192, 80, 3, true},
    {192, 80, 2, true},
    {192, 64, 4, true},
    {128, 192, 2, true},
    {128, 160, 2, true},
    {128, 128, 2, true},
    {128, 96, 2, true},
    {128, 80, 2, false},
    {128, 64, 2, true},
    {64, 128, 2, false},
    {64, 80, 2, false},
    {64, 64, 3, false},
    {64, 64, 2, false},
    {64, 64, 4, true, 2},
    {64, 128, 2, true, 2},
    {64, 128, 4, true, 2},
};

constexpr int kMostHeadSwizzle = 1 << 20;  // head groups walked together
constexpr int kLeastQRegsHeadDim = 128;    // of Q in registers
constexpr int kMostCopiedPage = 32;        // keys, of pages that TMA's boxes fit

// The fewest parts of out of which a buffer for one fits beside the keys; 1 where none does.
int fewest_parts(const Problem& p, WgmmaFlash c, const DeviceSpec& device) {
  const int panels = padded_columns(p.head_dim_v) / kPanelColumns;
  for (c.out_parts = 1; c.out_parts <= panels; ++c.out_parts) {
    if (plan(p, c).shared_memory <= device.smem_per_block) return c.out_parts;
  }
  return 1;
}

WgmmaFlash candidate_of(const Problem& p, const Tile& tile, WgmmaFlash::KeyCopy key_copy, int pack,
                        const TileWalk& walk, const DeviceSpec& device) {
  WgmmaFlash c;
  c.tile_m = tile.m;
  c.tile_n = tile.n;
  c.key_shares = tile.key_shares;
  c.stages = tile.stages;
  c.pack = pack;
  c.scheduler = walk.scheduler;
  c.out_parts = tile.out_buffer ? 1 : 0;
  c.softmax = tile.softmax;
  c.queries = tile.queries;
  c.cluster = walk.cluster;
  c.key_copy = key_copy;
  if (p.head_dim >= kLeastQRegsHeadDim && tile.m > kWarpgroupRows) c.q_regs = q_regs_that_fit(p, c);
  if (tile.out_buffer && tile.m > kWarpgroupRows) c.out_parts = fewest_parts(p, c, device);
  return c;
}

// Ways to bring the problem's keys: of pages as TMA's boxes fit them; where these are many, warps that copy may be
// faster.
std::vector<WgmmaFlash::KeyCopy> key_copies(const Problem& p, std::int32_t tile_n) {
  using enum WgmmaFlash::KeyCopy;
  if (!p.paged()) return {kTma};
  if (!boxes_fit(p, tile_n)) return {kCpAsync};
  if (p.page > kMostCopiedPage) return {kTma};
  return {kTma, kCpAsync};
}

// What the keys and values of heads walked together fill; more than L2 too, since fewer groups leave less imbalance.
constexpr int kHalvesOfL2[] = {1, 4};

// Head groups whose keys and values fill so many halves of L2 together; 0 where all of them do.
int swizzle_that_fits_l2(const Problem& p, const WgmmaFlash& c, const DeviceSpec& device, int halves) {
  const std::int64_t kv_bytes = 2LL * p.kv_len * (p.head_dim + p.head_dim_v);  // of a key/value head
  const std::int64_t groups = head_groups(p, shape_of(c));
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.kv_heads;
  if (kv_heads <= device.l2_bytes / kv_bytes) return 0;
  const std::int64_t kv_heads_a_half = std::max<std::int64_t>(1, device.l2_bytes / 2 / kv_bytes);
  const std::int64_t heads = halves * kv_heads_a_half * (p.group() / c.pack);
  return heads < groups ? static_cast<int>(std::min<std::int64_t>(heads, kMostHeadSwizzle)) : 0;
}

// All heads together, and L2-sized groups of them.
std::vector<int> swizzles_of(const Problem& p, const WgmmaFlash& c, const DeviceSpec& device) {
  std::vector<int> swizzles = {0};
  for (const int halves : kHalvesOfL2) {
    if (const int heads = swizzle_that_fits_l2(p, c, device, halves); heads != 0) swizzles.push_back(heads);
  }
  return swizzles;
}

// Clusters do as well under the static scheduler as under the dynamic one, but for swizzled heads whose tiles a mask
// makes unequal: those leave its rounds uneven.
bool pays(const Problem& p, const WgmmaFlash& c, const std::vector<int>& swizzles) {
  if (!c.scheduler.is<DynamicTiles>() || c.cluster == 1) return true;
  const bool unequal = work_grows(p) && p.q_len >= p.kv_len / 2;
  return unequal && swizzles.size() > 1;
}

// Packed heads share a tile's keys, and a tile of fewer positions sees fewer keys that the mask hides. A warpgroup's
// rows of out leave in whole positions.
void add_tile(const Problem& p, const Tile& tile, WgmmaFlash::KeyCopy key_copy, const DeviceSpec& device,
              std::vector<WgmmaFlash>* found) {
  for (const int pack : divisors(p.group())) {
    if (kWarpgroupRows % pack != 0) continue;
    for (const TileWalk& walk : tile_walks(device)) {
      WgmmaFlash c = candidate_of(p, tile, key_copy, pack, walk, device);
      const std::vector<int> swizzles = swizzles_of(p, c, device);
      if (!pays(p, c, swizzles)) continue;
      for (const int heads : swizzles) {
        c.head_swizzle = heads;
        found->push_back(c);
      }
    }
  }
}

}  // namespace

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<WgmmaFlash>* found) {
  if (device.kind == DeviceKind::kHost || device.wgmma_flops <= 0) return;
  for (const Tile& tile : kTiles)
    for (const WgmmaFlash::KeyCopy copy : key_copies(problem, tile.n)) add_tile(problem, tile, copy, device, found);
}

}  // namespace gqa

// tiles.cc: which candidates the family has; see mma_flash.h. The table is the space; what follows only spells it out
// for a problem. Adding a tile is one line.
#include "search/families/host.h"
#include "search/families/limits.h"
#include "search/families/mma_flash/mma_flash.h"
#include "search/families/mma_tile.h"
#include "search/families/walk_cost.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

// 16 or 32 rows a warp. 32 halve the shared-memory reads of keys and values, 16 leave registers for wide heads. One
// stage leaves shared memory for a second CTA, which hides the loads instead.
constexpr MmaTile kTiles[] = {
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

constexpr int kHostRows[] = {32, 64, 128, 256};

// Where all tiles are alike and the keys stay in L2, the order changes nothing.
bool order_matters(const Problem& p, const CandidateShape& shape, const DeviceSpec& device) {
  if (row_tiles(p, shape) == 1 || std::int64_t{p.batch} * p.q_heads == shape.pack) return false;
  return work_grows(p) || key_value_bytes(p) > static_cast<double>(device.l2_bytes);
}

void add_tile(const Problem& p, const MmaTile& tile, const DeviceSpec& device, std::vector<MmaFlash>* found) {
  for (const int pack : divisors(p.group())) {
    // Where one head fills a tile, packing all of a group's heads or none says it all.
    if (pack != 1 && pack != p.group() && p.q_len >= tile.m) continue;
    MmaFlash c = {tile.m, tile.n, tile.warps, tile.stages, pack, terms_of(p, device), 0};
    found->push_back(c);
    if (device.kind == DeviceKind::kHost || !order_matters(p, shape_of(c), device)) continue;
    c.head_swizzle = 1;
    found->push_back(c);
  }
}

}  // namespace

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<MmaFlash>* found) {
  if (device.kind == DeviceKind::kCuda) {
    for (const MmaTile& tile : kTiles) add_tile(problem, tile, device, found);
    return;
  }
  for (const int n : kHostKeys) {
    for (const int m : kHostRows) add_tile(problem, {m, n, 1, 1}, device, found);
  }
}

}  // namespace gqa

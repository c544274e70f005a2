// tiles.cc: which candidates the family has; see split_kv.h. The table is the space; what follows only spells it out
// for a problem. Adding a tile is one line.
#include <algorithm>

#include "search/families/host.h"
#include "search/families/limits.h"
#include "search/families/mma_tile.h"
#include "search/families/split_kv/split_kv.h"
#include "search/problem/mask.h"
#include "search/rounding.h"

namespace gqa {
namespace {

// Every warp holds all m rows and walks keys of its own: n a step, in a private pipeline.
constexpr MmaTile kTiles[] = {
    {16, 16, 1, 4}, {16, 16, 2, 4}, {16, 16, 4, 3}, {16, 16, 4, 4}, {16, 16, 4, 6}, {16, 16, 8, 3}, {16, 16, 8, 4},
    {16, 32, 1, 3}, {16, 32, 1, 5}, {16, 32, 2, 2}, {16, 32, 2, 3}, {16, 32, 2, 4}, {16, 32, 4, 2}, {16, 32, 4, 3},
    {16, 32, 4, 4}, {16, 32, 8, 2}, {16, 32, 8, 3}, {16, 64, 1, 2}, {16, 64, 1, 3}, {16, 64, 1, 4}, {16, 64, 2, 2},
    {16, 64, 2, 3}, {16, 64, 4, 2}, {16, 64, 4, 3}, {16, 64, 8, 2}, {32, 16, 4, 3}, {32, 16, 4, 4}, {32, 32, 2, 3},
    {32, 32, 4, 2}, {32, 32, 4, 3}, {32, 32, 8, 2}, {32, 64, 2, 2}, {32, 64, 2, 3}, {32, 64, 4, 2}, {64, 16, 4, 3},
    {64, 16, 8, 2}, {64, 32, 2, 2}, {64, 32, 4, 2}, {64, 32, 4, 3}, {64, 32, 8, 2},
};

constexpr int kHostRows[] = {16, 32, 64};

// How many times over the grid of a split fills the SMs; 1/2 leaves more keys a CTA.
constexpr double kWaves[] = {0.5, 1, 2, 3, 4, 8};
constexpr int kMostSplits = 128;
constexpr int kCtasAnSm[] = {1, 2, 3, 4, 6, 8};
constexpr int kPackedRows = 64;  // into which as many heads of a group as fit are packed
constexpr int kFewestKeysAWarp = 32;

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
  return static_cast<int>(ceil_div(steps, ceil_div(steps, splits)));
}

std::vector<int> split_counts(const Problem& p, const SplitKv& c, const DeviceSpec& device) {
  const std::int32_t keys = most_keys_of_all_queries(p);
  const std::int64_t steps = ceil_div(keys, c.tile_n);
  const std::int64_t keys_a_split = std::int64_t{c.warps} * std::max(c.tile_n, kFewestKeysAWarp);
  const std::int64_t most = std::clamp<std::int64_t>(keys / keys_a_split, 1, kMostSplits);
  const double tiles = static_cast<double>(plan(p, c).blocks);
  std::vector<int> counts = {1};
  for (const double waves : kWaves) {
    const auto wanted = static_cast<std::int64_t>(waves * device.sms / tiles);
    counts.push_back(even_splits(steps, std::clamp<std::int64_t>(wanted, 1, most)));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

// As many CTAs as SMs hold at once: the cut is even, so a CTA that waits for another's end makes it uneven.
void add_even(const Problem& p, const DeviceSpec& device, SplitKv c, std::vector<SplitKv>* found) {
  c.scheduler = SplitScheduler::kEven;
  c.splits = 0;
  for (const int ctas : kCtasAnSm) {
    const int splits = std::max(1, ctas * device.sms / (p.q_heads / c.pack));
    if (splits == c.splits) continue;
    c.splits = splits;
    found->push_back(c);
  }
}

void add_shares(const Problem& p, const DeviceSpec& device, SplitKv c, std::vector<SplitKv>* found) {
  for (const int splits : split_counts(p, c, device)) {
    c.splits = splits;
    found->push_back(c);
  }
}

void add_tile(const Problem& p, const MmaTile& tile, const DeviceSpec& device, std::vector<SplitKv>* found) {
  const int fits_tile = largest_pack(p, tile.m), most = largest_pack(p, kPackedRows);
  for (const int pack : {fits_tile, most}) {
    const SplitKv c = {tile.m, tile.n, tile.warps, tile.stages, pack, terms_of(p, device), SplitScheduler::kShares, 1};
    if (p.lengths_listed() && device.kind == DeviceKind::kCuda)
      add_even(p, device, c, found);
    else
      add_shares(p, device, c, found);
    if (fits_tile == most) return;
  }
}

}  // namespace

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<SplitKv>* found) {
  if (problem.q_len > most_split_rows(problem, device)) return;
  if (device.kind == DeviceKind::kCuda) {
    for (const MmaTile& tile : kTiles) add_tile(problem, tile, device, found);
    return;
  }
  for (const int n : kHostKeys) {
    for (const int m : kHostRows) add_tile(problem, {m, n, 1, 1}, device, found);
  }
}

}  // namespace gqa

// limits.cc: see limits.h.
#include "search/families/limits.h"

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostGridBlocks = 2147483647;  // of a 1-D grid
constexpr int kTilesThatNeedNoPacking = 16;

}  // namespace

std::string wrong_tile(const CandidateShape& s, int warps) {
  if (s.rows < 16 || s.rows % 16 != 0) return "tile of " + grouped(s.rows) + " rows: expected a multiple of 16";
  if (s.keys < 16 || s.keys % 16 != 0) return "step of " + grouped(s.keys) + " keys: expected a multiple of 16";
  if (warps < 1 || warps > 32) return grouped(warps) + " warps: expected 1 to 32";
  if (s.pack < 1) return "pack of " + grouped(s.pack) + ": expected at least 1";
  if (s.splits < 1) return grouped(s.splits) + " splits: expected at least 1";
  if (s.head_swizzle < 0) return "head_swizzle=" + grouped(s.head_swizzle) + ": expected at least 0";
  return "";
}

std::string more_than_one_split(int splits, std::string_view family) {
  if (splits < 1) return grouped(splits) + " splits: expected at least 1";
  return splits == 1 ? "" : grouped(splits) + " splits: " + std::string(family) + " has 1";
}

std::string wrong_pack(const Problem& p, const CandidateShape& s) {
  if (p.group() % s.pack == 0) return "";
  return "pack of " + grouped(s.pack) + " does not divide the group of " + grouped(p.group()) + " query heads";
}

std::string useless_pack(const Problem& p, const CandidateShape& s) {
  if (p.q_packed()) return "";  // some sequences may have few queries
  if (s.pack == 1 || p.q_len / s.rows < kTilesThatNeedNoPacking) return "";
  return "packing " + grouped(s.pack) + " heads gains nothing: one head fills " + grouped(p.q_len / s.rows) + " tiles";
}

std::string oversized(const Problem& p, const CandidateShape& s, int least_rows, int least_keys) {
  const std::int64_t rows = std::int64_t{p.q_len} * s.pack;
  if (s.rows > least_rows && s.rows / 2 >= rows)
    return "tile of " + grouped(s.rows) + " rows for " + grouped(rows) + " query rows";
  if (s.keys > least_keys && s.keys / 2 >= p.kv_len)
    return "step of " + grouped(s.keys) + " keys for " + grouped(p.kv_len) + " keys";
  return "";
}

std::string over_grid(const LaunchPlan& launch) {
  if (launch.blocks <= kMostGridBlocks) return "";
  return grouped(launch.blocks) + " blocks: a grid has at most " + grouped(kMostGridBlocks);
}

std::string over_shared_memory(const LaunchPlan& launch, const DeviceSpec& device) {
  if (launch.shared_memory <= device.smem_per_block) return "";
  return "needs " + grouped(launch.shared_memory) + " bytes of shared memory, the device has " +
         grouped(device.smem_per_block);
}

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int by = 1; by <= number; ++by) {
    if (number % by == 0) found.push_back(by);
  }
  return found;
}

}  // namespace gqa

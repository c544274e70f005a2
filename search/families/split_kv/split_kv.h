// split_kv.h: the family "split", for few query rows: a CTA owns one row tile and a share of the keys; warps split the
// keys, and the last CTA to arrive merges. Device code: jit/device/attention/split_kv/.
// Owns: SplitKv, its fields, and what search/families/family.h asks of every family.
// Never: is named outside search/families/ and jit/families/.
// Threads: a value; pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/text_fields.h"
#include "search/problem/problem.h"

namespace gqa {

// Which keys a CTA walks.
enum class SplitScheduler : std::int8_t {
  kShares,  // `splits` CTAs share each row tile's keys
  // The blocks of a head group's tiles are one list, cut evenly over `splits` CTAs, whatever lengths sequences have.
  kEven,
};

struct SplitKv {
  std::int32_t tile_m = 64;  // query rows of a tile (packed heads count); every warp holds all of them
  std::int32_t tile_n = 64;  // keys a step of a warp, which walks keys of its own
  std::int32_t warps = 4;    // a CTA
  std::int32_t stages = 2;   // KV buffers in flight, a warp's
  std::int32_t pack = 1;     // query heads of a group in a tile's rows
  std::int32_t terms = 0;    // of tf32 products that make one of float32 (mma_tile.h)
  SplitScheduler scheduler = SplitScheduler::kShares;
  std::int32_t splits = 1;  // CTAs that share the keys of a row tile, or of all of a head group's

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the comparison with 0
  friend auto operator<=>(const SplitKv&, const SplitKv&) = default;

  // "head_swizzle" is in the text of every family, and 0 here.
  static constexpr TextField kFields[] = {
      {"m", 64, FieldUse::kCode},        {"n", 64, FieldUse::kCode},       {"warps", 4, FieldUse::kCode},
      {"stages", 2, FieldUse::kCode},    {"pack", 1, FieldUse::kCode},     {"terms", 0, FieldUse::kMechanism},
      {"even", 0, FieldUse::kMechanism}, {"splits", 1, FieldUse::kLaunch}, {"head_swizzle", 0, FieldUse::kLaunch}};
  static constexpr FamilyText kText = {"split", kFields};
  using Numbers = std::array<std::int32_t, std::size(kFields)>;
};

SplitKv::Numbers numbers_of(const SplitKv& candidate);
std::string read(const SplitKv::Numbers& numbers, SplitKv* candidate);

CandidateShape shape_of(const SplitKv& candidate);
LaunchPlan plan(const Problem& problem, const SplitKv& candidate);
int registers(const Problem& problem, const SplitKv& candidate);
std::string arithmetic_words(const SplitKv& candidate);

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<SplitKv>* found);
std::string reject_reason(const Problem& problem, const SplitKv& candidate, const DeviceSpec& device);
double predict_us(const Problem& problem, const SplitKv& candidate, const DeviceSpec& device);
double moved_bytes(const Problem& problem, const SplitKv& candidate, const DeviceSpec& device);

// Query rows of a head group that the family takes: few, for past them mma_flash has enough tiles; where it has not,
// because heads are few, as many as let it fill the device.
std::int64_t most_split_rows(const Problem& problem, const DeviceSpec& device);

}  // namespace gqa

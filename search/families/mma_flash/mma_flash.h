// mma_flash.h: the family "flash", mma.sync on any GPU since sm_80: a CTA owns tile_m query rows and loops over all
// their keys; warps split the rows. Device code: jit/device/attention/mma_flash/.
// Owns: MmaFlash, its fields, and what search/families/family.h asks of every family.
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
#include "search/families/mma_tile.h"
#include "search/families/text_fields.h"
#include "search/problem/problem.h"

namespace gqa {

struct MmaFlash {
  std::int32_t tile_m = 64;       // query rows a CTA owns (packed heads count): 16 or 32 a warp
  std::int32_t tile_n = 64;       // keys a step
  std::int32_t warps = 4;         // a CTA
  std::int32_t stages = 2;        // KV buffers in flight
  std::int32_t pack = 1;          // query heads of a group in a tile's rows
  std::int32_t terms = 0;         // of tf32 products that make one of float32 (mma_tile.h)
  std::int32_t head_swizzle = 0;  // head groups walked together. 0: all of them (best balance); 1: head by head (best
                                  // L2 reuse). A launch takes the largest number up to it that divides all of them.

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the comparison with 0
  friend auto operator<=>(const MmaFlash&, const MmaFlash&) = default;

  // "splits" is in the text of every family, and 1 here.
  static constexpr TextField kFields[] = {{"m", 64, FieldUse::kCode},       {"n", 64, FieldUse::kCode},
                                          {"warps", 4, FieldUse::kCode},    {"stages", 2, FieldUse::kCode},
                                          {"pack", 1, FieldUse::kCode},     {"terms", 0, FieldUse::kMechanism},
                                          {"splits", 1, FieldUse::kLaunch}, {"head_swizzle", 0, FieldUse::kLaunch}};
  static constexpr FamilyText kText = {"flash", kFields};
  using Numbers = std::array<std::int32_t, std::size(kFields)>;
};

MmaFlash::Numbers numbers_of(const MmaFlash& candidate);
std::string read(const MmaFlash::Numbers& numbers, MmaFlash* candidate);

CandidateShape shape_of(const MmaFlash& candidate);
LaunchPlan plan(const Problem& problem, const MmaFlash& candidate);
int registers(const Problem& problem, const MmaFlash& candidate);
inline std::string arithmetic_words(const MmaFlash& candidate) { return terms_words(candidate.terms); }

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<MmaFlash>* found);
std::string reject_reason(const Problem& problem, const MmaFlash& candidate, const DeviceSpec& device);
double predict_us(const Problem& problem, const MmaFlash& candidate, const DeviceSpec& device);
double moved_bytes(const Problem& problem, const MmaFlash& candidate, const DeviceSpec& device);

}  // namespace gqa

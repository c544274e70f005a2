// candidate.h: one way to compute a problem, as data.
// Owns: Candidate, a µGraph skeleton with its parameters: text, parse, hash, order.
// Never: holds code or anything that depends on a device. A new parameter is one line in GQA_CANDIDATE_FIELDS; text,
// parsing, comparison and hashing follow from that list.
// Threads: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "search/status.h"

namespace gqa {

// flash: a CTA owns tile_m query rows and loops over all their keys; warps split the rows.
// split: a CTA owns one row tile and a share of the keys; warps split the keys; the last CTA to arrive merges.
enum class Skeleton : std::uint8_t { kFlash, kSplit };

// tile_order of the flash skeleton: which tiles the first CTAs take.
// 0: all heads of the longest query tile first (best balance); 1: head by head, longest tile first (best L2 reuse).

// X(field, text key, default, compiled): `compiled` fields shape the generated code, the others only the launch.
#define GQA_CANDIDATE_FIELDS(X)                                                        \
  X(tile_m, "m", 64, true)      /* query rows a CTA owns (packed heads count) */       \
  X(tile_n, "n", 64, true)      /* keys a step (split: keys a warp's step) */          \
  X(warps, "warps", 4, true)    /* warps a CTA */                                      \
  X(stages, "stages", 2, true)  /* KV buffers in flight */                             \
  X(pack, "pack", 1, true)      /* query heads of a group packed into a tile's rows */ \
  X(splits, "splits", 1, false) /* CTAs that share one row tile's keys */              \
  X(order, "order", 0, false)   /* tile order, above */

struct Candidate {
  Skeleton skeleton = Skeleton::kFlash;
#define GQA_FIELD(field, key, initial, compiled) std::int32_t field = initial;
  GQA_CANDIDATE_FIELDS(GQA_FIELD)
#undef GQA_FIELD

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the comparison with 0
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::uint64_t hash(const Candidate& candidate);
std::string_view name(Skeleton skeleton);  // "flash", "split"

// "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 order=0"
std::string to_text(const Candidate& candidate);
// Only the fields that shape the code: candidates that agree here share one kernel.
std::string kernel_text(const Candidate& candidate);
Status parse(std::string_view text, Candidate* candidate);

}  // namespace gqa

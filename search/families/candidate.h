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
// warpgroup: flash on Hopper's wgmma: a producer feeds warpgroups of 64 rows by TMA; with tile_m of 64 and 8 warps two
// of them share the keys of the same rows.
enum class Skeleton : std::uint8_t { kFlash, kSplit, kWarpgroup };

// order (flash, warpgroup): how many head groups are walked together, longest query tile first. 0: all of them (best
// balance); 1: head by head (best L2 reuse); more: as many as have their keys in L2.
// draw (warpgroup): 0: CTAs take tiles in rounds, every other round backwards; 1: each draws the next one that is free.
// out (warpgroup): 0: rows leave straight from registers; 1: by TMA, through a buffer; more: through one for that part
// of them, panel by panel.
// sums (warpgroup): 1: the softmax of half a block's keys runs beside the products of the other half, and the tensor
// cores sum the rounded weights, so there is no exact log-sum-exp.
// shift (warpgroup, with sums): 1: the products make exponents of scores, by queries times the scale and a column of
// offsets.
// poly (warpgroup, with sums): which exponentials are polynomials on the FMA units instead of the special-function
// unit's. held (warpgroup): the queries' first columns, which the products then take from registers instead of shared
// memory. cluster (warpgroup): 2: pairs of CTAs on neighbouring rows; each key and value comes from L2 once for both.
// tail (warpgroup): more than 0: so many clusters (CTAs, where they are single) share the keys of those tiles that
// whole rounds over them leave over.

// What a field shapes.
enum class FieldUse : std::uint8_t { kCode, kWarpgroupCode, kMechanism, kLaunch };

// X(field, text key, default, use): kLaunch shapes the launch only, all others the generated code. kWarpgroupCode and
// kMechanism have their default in all other skeletons, whose text leaves them out; a mechanism that is not used is
// left out of warpgroup's too.
#define GQA_CANDIDATE_FIELDS(X)                                                           \
  X(tile_m, "m", 64, kCode)              /* query rows a CTA owns (packed heads count) */ \
  X(tile_n, "n", 64, kCode)              /* keys a step (split: keys a warp's step) */    \
  X(warps, "warps", 4, kCode)            /* warps a CTA (warpgroup: that multiply) */     \
  X(stages, "stages", 2, kCode)          /* KV buffers in flight */                       \
  X(pack, "pack", 1, kCode)              /* query heads of a group in a tile's rows */    \
  X(draw, "draw", 0, kWarpgroupCode)     /* 1: CTAs draw the next tile, above */          \
  X(out_parts, "out", 0, kWarpgroupCode) /* of out that leave in turn, above */           \
  X(sums, "sums", 0, kMechanism)         /* 1: row sums by the tensor cores, above */     \
  X(shift, "shift", 0, kMechanism)       /* 1: exponents by the tensor cores, above */    \
  X(queries, "queries", 1, kMechanism)   /* buffers of a tile's queries */                \
  X(poly, "poly", 0, kMechanism)         /* one pair of weights in poly, above */         \
  X(held, "held", 0, kMechanism)         /* times 16 query columns in registers */        \
  X(cluster, "cluster", 1, kMechanism)   /* CTAs that share keys by multicast, above */   \
  X(tail, "tail", 0, kMechanism)         /* clusters that share the last tiles, above */  \
  X(splits, "splits", 1, kLaunch)        /* CTAs that share one row tile's keys */        \
  X(order, "order", 0, kLaunch)          /* of tiles, above */

struct Candidate {
  Skeleton skeleton = Skeleton::kFlash;
#define GQA_FIELD(field, key, initial, use) std::int32_t field = initial;
  GQA_CANDIDATE_FIELDS(GQA_FIELD)
#undef GQA_FIELD

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the comparison with 0
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::uint64_t hash(const Candidate& candidate);
std::string_view name(Skeleton skeleton);  // "flash", "split", "warpgroup"

// "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 order=0"
std::string to_text(const Candidate& candidate);
// Only the fields that shape the code: candidates that agree here share one kernel.
std::string kernel_text(const Candidate& candidate);
Status parse(std::string_view text, Candidate* candidate);

}  // namespace gqa

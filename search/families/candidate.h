// candidate.h: one way to compute a problem, as data.
// Owns: Candidate, a kernel family with its parameters: text, parse, hash, order.
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
enum class Family : std::uint8_t { kFlash, kSplit, kWarpgroup };

// head_swizzle (flash, warpgroup): how many head groups are walked together, longest query tile first. 0: all of them
// (best balance); 1: head by head (best L2 reuse); more: as many as have their keys in L2. A launch takes the largest
// number up to it that divides all of them.
// dynamic (warpgroup): the persistent tile scheduler. 0, static: rounds over the grid, every other round backwards;
// 1: each CTA, or cluster, takes the next tile from a counter.
// out (warpgroup): the epilogue. 0: rows are stored straight from registers; 1: by TMA, through a buffer; more: through
// a buffer for that part of them, panel by panel.
// ones_column (warpgroup): 1: blocks are walked in halves, the softmax of one half beside the MMAs of the other, and a
// column of ones beside the values makes PV sum the rounded weights; so there is no exact log-sum-exp.
// folded_scale (warpgroup, with ones_column): 1: the scale is folded into Q, and a rank-1 MMA with the ones subtracts
// the maxima, so that scores come as exponents.
// exp2_fma (warpgroup, with ones_column): one pair of weights in so many is emulated on the FMA units, not computed on
// the special-function unit.
// queries (warpgroup): 2: the next tile's Q has a buffer of its own.
// q_regs (warpgroup): times 16 columns of Q are kept as fragments in registers.
// cluster (warpgroup): 2: pairs of CTAs on neighbouring rows; TMA multicasts each key and value to both.
// stream_k (warpgroup): more than 0: so many clusters (CTAs, where they are single) share the keys of the last partial
// wave's tiles.

// What a field shapes.
enum class FieldUse : std::uint8_t { kCode, kWarpgroupCode, kMechanism, kLaunch };

// X(field, text key, default, use): kLaunch shapes the launch only, all others the generated code. kWarpgroupCode and
// kMechanism have their default in all other families, whose text leaves them out; a mechanism that is not used is
// left out of warpgroup's too.
#define GQA_CANDIDATE_FIELDS(X)                                                                   \
  X(tile_m, "m", 64, kCode)                      /* query rows a CTA owns (packed heads count) */ \
  X(tile_n, "n", 64, kCode)                      /* keys a step (split: keys a warp's step) */    \
  X(warps, "warps", 4, kCode)                    /* warps a CTA (warpgroup: of its consumers) */  \
  X(stages, "stages", 2, kCode)                  /* KV buffers in flight */                       \
  X(pack, "pack", 1, kCode)                      /* query heads of a group in a tile's rows */    \
  X(dynamic, "dynamic", 0, kWarpgroupCode)       /* tile scheduler, above */                      \
  X(out_parts, "out", 0, kWarpgroupCode)         /* parts of out that leave in turn, above */     \
  X(ones_column, "ones_column", 0, kMechanism)   /* 1: PV sums the rows, above */                 \
  X(folded_scale, "folded_scale", 0, kMechanism) /* 1: QK makes exponents, above */               \
  X(queries, "queries", 1, kMechanism)           /* Q buffers */                                  \
  X(exp2_fma, "exp2_fma", 0, kMechanism)         /* one pair of weights in so many, above */      \
  X(q_regs, "q_regs", 0, kMechanism)             /* times 16 columns of Q in registers */         \
  X(cluster, "cluster", 1, kMechanism)           /* CTAs that share keys by multicast, above */   \
  X(stream_k, "stream_k", 0, kMechanism)         /* clusters on the last partial wave, above */   \
  X(splits, "splits", 1, kLaunch)                /* CTAs that share one row tile's keys */        \
  X(head_swizzle, "head_swizzle", 0, kLaunch)    /* head groups walked together, above */

struct Candidate {
  Family family = Family::kFlash;
#define GQA_FIELD(field, key, initial, use) std::int32_t field = initial;
  GQA_CANDIDATE_FIELDS(GQA_FIELD)
#undef GQA_FIELD

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes the comparison with 0
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

std::uint64_t hash(const Candidate& candidate);
std::string_view name(Family family);  // "flash", "split", "warpgroup"

// "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"
std::string to_text(const Candidate& candidate);
// Only the fields that shape the code: candidates that agree here share one kernel.
std::string kernel_text(const Candidate& candidate);
Status parse(std::string_view text, Candidate* candidate);

}  // namespace gqa

// tile_kinds.h: kinds of tile, for tests of a GPU that cannot take every candidate of a space.
// Owns: kind_of, what of a candidate chooses other code or other barriers; one_of_each_kind; the problems with lengths
// of their own that CacheGpu takes them from. Never: asks a device. Threads: pure functions.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "search/families/arithmetic.h"

namespace gqa::test {

// The column of ones needs head_dim 64 and no log-sum-exp; d256 stores rows by parts.
inline constexpr const char* kProblemsOnLengths[] = {
    "b=5,hq=8,hk=2,sq=300,sk=900,d=64,causal,lens,lse=0", "b=5,hq=8,hk=2,sq=300,sk=900,d=64,lens,dtype=f16,lse=0",
    "b=5,hq=8,hk=2,sq=300,sk=900,d=128,causal,lens",      "b=7,hq=8,hk=2,sq=40,sk=700,d=128,lens",
    "b=3,hq=4,hk=4,sq=200,sk=700,d=256,causal,lens",      "b=3,hq=4,hk=2,sq=200,sk=700,d=192,dv=128,causal,lens"};

// Its arithmetic. warpgroup has more: rows of a CTA, tile scheduler, how rows of out leave (from registers, by TMA
// whole or in parts), Q buffers, whether some of Q is in registers, whether heads are packed, clusters. Not how many:
// keys a step, stages, fragments of Q, heads are numbers of the same code.
inline std::string kind_of(const Candidate& candidate) {
  std::string kind = arithmetic(candidate);
  const auto* const c = std::get_if<WgmmaFlash>(&candidate.of);
  if (c == nullptr) return kind;
  kind += " m=" + std::to_string(c->tile_m) + " scheduler=" + std::to_string(c->scheduler.kind.index());
  kind += " out=" + std::to_string(std::min(c->out_parts, 2)) + " queries=" + std::to_string(c->queries);
  kind += " cluster=" + std::to_string(c->cluster);
  return kind + (c->q_regs > 0 ? " q_regs" : "") + (c->pack > 1 ? " packed" : "");
}

// The candidate of each that ranks best.
inline std::vector<Candidate> one_of_each_kind(const Space& space) {
  std::vector<Candidate> chosen;
  std::set<std::string> seen;
  for (const Ranked& ranked : space.ranked)
    if (seen.insert(kind_of(ranked.candidate)).second) chosen.push_back(ranked.candidate);
  return chosen;
}

}  // namespace gqa::test

// retile.h: attention that the search found, in the tiles of a candidate.
// Owns: plain_attention(): the operators without blocks; retile(): the same on the same tensors, blocks and steps as a
// family's kernel would run them.
// Never: proves that it is the same; kernel_plan.cc does, before anything is launched.
// Threads: pure functions.
//
// A row tile of a block holds tile_m / pack queries of pack heads, a step tile_n keys; a split candidate's blocks share
// the keys. Scalings of q and k stand on the scores, where the kernels have them.
#pragma once

#include <optional>

#include "search/families/candidate.h"
#include "search/graph/ir/kernel_graph.h"

namespace gqa {

std::optional<KernelGraph> plain_attention(const KernelGraph& attention);

// With the candidate as thread plan. Nothing where the graph is no attention (attention_match.h), or its dimensions do
// not allow such tiles.
std::optional<KernelGraph> retile(const KernelGraph& attention, const Candidate& candidate);

}  // namespace gqa

// tile_open.h: a block graph in fewer words, before it is planned.
// Owns: open_rows(), which spells softmax, rms_norm and mean in reductions and elementwise steps and drops what nobody
// reads.
// Never: changes what is computed; rewriting a user's graph is rules.h's.
// Threads: pure functions.
#pragma once

#include "search/graph/ir/block_graph.h"

namespace gqa {

BlockGraph open_rows(const BlockGraph& block);

}  // namespace gqa

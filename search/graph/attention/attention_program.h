// attention_program.h: attention in the µGraph's own words.
// Owns: attention_graph(), a problem as plain operators; attention_program(), the kernels that a candidate of the
// attention search stands for: flash (one kernel: a grid of row tiles, groups, KV heads and batches, a loop over keys,
// a running maximum) or split (keys over the grid too, partial results, a merging kernel).
// Never: adds anything that equivalence could not judge.
// Threads: pure functions.
//
// Tensors: q (batch, kv_heads, group, q_len, head_dim), k and v (batch, kv_heads, 1, kv_len, head_dim), out as q: views
// of the (batch, length, heads, head_dim) tensors of a call; transposed keys (batch, kv_heads, 1, head_dim, kv_len).
// Packing the heads of a group into a tile is a tile of `pack` along the group dimension.
#pragma once

#include "search/families/candidate.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/problem/problem.h"

namespace gqa {

KernelGraph attention_graph(const Problem& problem);  // scores scaled by 1 / sqrt(head_dim)

// Where pack does not divide tile_m, a tile holds the whole queries that fit.
KernelGraph attention_program(const Problem& problem, const Candidate& candidate);

}  // namespace gqa

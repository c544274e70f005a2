// mugraph.h: the program a candidate stands for.
// Owns: MuGraph, a kernel graph whose custom kernels hold a block graph (grid, imap, omap, fmap, loop, accumulators)
// with the thread-level parameters beside it; its text form (round trip), hash and comparison; the attention µGraph of a
// problem and a candidate.
// Never: runs anything. The host device executes what candidate_of() reads back from one.
// Threads: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/candidate.h"
#include "search/problem.h"
#include "search/status.h"

namespace gqa {

// How a device tensor's dimensions meet the grid and the loop. -1: not mapped (replicated).
struct DimMap {
  int tile = -1, head = -1, batch = -1, split = -1;  // grid dimensions -> tensor dimension (imap / omap)
  int loop = -1;                                      // for-loop -> tensor dimension (fmap)
  friend bool operator==(const DimMap&, const DimMap&) = default;
};

struct Node {
  std::string name;                 // of its result
  std::string op;                   // "input", "matmul", "scale", "mask", "max", "exp", "sum", "div", "accumulate", "output"
  std::vector<std::string> inputs;  // names of earlier nodes
  DimMap map;                       // of an input or output
  bool in_loop = false;             // inside the KV loop
  friend bool operator==(const Node&, const Node&) = default;
};

struct MuGraph {
  Problem problem;      // the kernel-level operator and its tensors
  Candidate candidate;  // thread level: tiles, warps, stages
  std::int64_t grid_tiles = 0, grid_heads = 0, grid_batch = 0, grid_splits = 0;
  std::int64_t loop_steps = 0;  // steps of the KV loop of an unmasked tile
  std::vector<Node> block;      // the block graph, in execution order
  friend bool operator==(const MuGraph&, const MuGraph&) = default;
};

MuGraph attention_mugraph(const Problem& problem, const Candidate& candidate);
std::string to_text(const MuGraph& graph);
Status parse(std::string_view text, MuGraph* graph);
std::uint64_t hash(const MuGraph& graph);

}  // namespace gqa

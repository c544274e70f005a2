// mugraph.h: the program a candidate stands for.
// Owns: MuGraph, a kernel graph whose custom kernels hold a block graph (grid, imap, omap, fmap, loop, accumulators)
// with the thread-level parameters beside it; its text form (round trip), hash and comparison; the attention µGraph of
// a problem and a candidate. Never: runs anything. The host device executes the problem and candidate that it reads
// back from one. Threads: a value.
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
  int loop = -1;                                     // for-loop -> tensor dimension (fmap)
  friend bool operator==(const DimMap&, const DimMap&) = default;
};

struct Node {
  std::string name;                 // of its result
  std::string op;                   // one of known_ops()
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

// The ops of a block graph. max and accumulate carry from step to step (accumulate rescales when its second input, the
// running maximum, grows); partial leaves a split's share in the workspace, merge joins the shares.
const std::vector<std::string_view>& known_ops();

MuGraph attention_mugraph(const Problem& problem, const Candidate& candidate);

// One line an item: "mugraph 1", the problem, the candidate, the grid, the loop, then a node a line, "in loop:" before
// those of the KV loop. parse() reads what to_text writes; its errors name line, what was
// found and what was expected, and leave *graph as it was.
std::string to_text(const MuGraph& graph);
Status parse(std::string_view text, MuGraph* graph);
std::uint64_t hash(const MuGraph& graph);

}  // namespace gqa

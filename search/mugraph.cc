// mugraph.cc: see mugraph.h; its text form is in mugraph_text.cc.
#include "search/mugraph.h"

#include <xxhash.h>

#include "search/resources.h"

namespace gqa {
namespace {

// Dimensions of (batch, length, heads, head_dim) tensors, and of the workspace (split, row, head, batch).
constexpr int kBatch = 0, kLength = 1, kHead = 2;

constexpr bool kInLoop = true;

DimMap rows_map() { return {.tile = kLength, .head = kHead, .batch = kBatch}; }

// Splits take their share of the keys, the loop walks the share.
DimMap keys_map(const Candidate& candidate) {
  DimMap map = {.head = kHead, .batch = kBatch, .loop = kLength};
  if (candidate.splits > 1) map.split = kLength;
  return map;
}

DimMap partial_map() { return {.tile = 1, .head = 2, .batch = 3, .split = 0}; }

struct Builder {
  std::vector<Node> nodes;

  void in_loop(const char* name, const char* op, std::vector<std::string> inputs, DimMap map = {}) {
    nodes.push_back({name, op, std::move(inputs), map, kInLoop});
  }
  void after(const char* name, const char* op, std::vector<std::string> inputs, DimMap map = {}) {
    nodes.push_back({name, op, std::move(inputs), map, !kInLoop});
  }
};

// One step: scores of the tile's rows with a tile of keys, folded into maximum, sum and output.
void add_step(const Problem& problem, const Candidate& candidate, Builder* graph) {
  graph->in_loop("k", "input", {}, keys_map(candidate));
  graph->in_loop("v", "input", {}, keys_map(candidate));
  graph->in_loop("products", "matmul", {"q", "k"});
  graph->in_loop("scaled", "scale", {"products"});
  if (problem.causal()) graph->in_loop("scores", "mask", {"scaled"});
  const std::string scores = problem.causal() ? "scores" : "scaled";
  graph->in_loop("maximum", "max", {scores});
  graph->in_loop("weights", "exp", {scores, "maximum"});
  graph->in_loop("weight_sum", "sum", {"weights"});
  graph->in_loop("total", "accumulate", {"weight_sum", "maximum"});
  graph->in_loop("weighted", "matmul", {"weights", "v"});
  graph->in_loop("rows", "accumulate", {"weighted", "maximum"});
}

void add_merge(Builder* graph) {
  graph->after("part_maximum", "partial", {"maximum"}, partial_map());
  graph->after("part_total", "partial", {"total"}, partial_map());
  graph->after("part_rows", "partial", {"rows"}, partial_map());
  graph->after("merged_total", "merge", {"part_total", "part_maximum"});
  graph->after("merged_rows", "merge", {"part_rows", "part_maximum"});
}

std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

std::int64_t loop_steps(const Problem& problem, const Candidate& candidate) {
  const std::int64_t share = ceil_div(ceil_div(problem.kv_len, candidate.tile_n), candidate.splits);
  return candidate.skeleton == Skeleton::kSplit ? ceil_div(share, candidate.warps) : share;
}

}  // namespace

const std::vector<std::string_view>& known_ops() {
  static const std::vector<std::string_view> ops = {"input", "matmul",     "scale",   "mask",  "max", "exp",
                                                    "sum",   "accumulate", "partial", "merge", "div", "output"};
  return ops;
}

MuGraph attention_mugraph(const Problem& problem, const Candidate& candidate) {
  MuGraph graph;
  graph.problem = problem;
  graph.candidate = candidate;
  graph.grid_tiles = row_tiles(problem, candidate);
  graph.grid_heads = problem.q_heads / candidate.pack;
  graph.grid_batch = problem.batch;
  graph.grid_splits = candidate.splits;
  graph.loop_steps = loop_steps(problem, candidate);

  Builder block;
  block.after("q", "input", {}, rows_map());
  add_step(problem, candidate, &block);
  const bool merged = candidate.splits > 1;
  if (merged) add_merge(&block);
  block.after("normalised", "div", {merged ? "merged_rows" : "rows", merged ? "merged_total" : "total"});
  block.after("out", "output", {"normalised"}, rows_map());
  graph.block = std::move(block.nodes);
  return graph;
}

std::uint64_t hash(const MuGraph& graph) {
  const std::string text = to_text(graph);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace gqa

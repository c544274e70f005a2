// attention_program.cc: see attention_program.h.
#include "search/graph/attention/attention_program.h"

#include <algorithm>
#include <cmath>

#include "search/families/resources.h"
#include "search/rounding.h"

namespace gqa {
namespace {

enum Dim : std::int64_t { kBatch, kKvHead, kGroup, kRow, kColumn };         // of q, k, v and out
enum GridDim : std::size_t { kTiles, kGroups, kHeads, kBatches, kSplits };  // of the blocks

// A (batch, length, heads, size) tensor seen as (batch, kv_heads, group, length, size).
TensorSpec view(const Problem& p, std::int64_t group, std::int64_t length, std::int64_t size) {
  const std::int64_t heads = p.kv_heads * group;
  return {{p.batch, p.kv_heads, group, length, size},
          p.q_type,
          {length * heads * size, group * size, size, heads * size, 1}};
}

TensorSpec key_view(const Problem& p) {
  if (!p.keys_transposed()) return view(p, 1, p.kv_len, p.head_dim);
  return {{p.batch, p.kv_heads, 1, p.head_dim, p.kv_len}, p.q_type};
}

struct Inputs {
  int q, k, v;
};

Inputs add_inputs(const Problem& p, KernelBuilder* graph) {
  return {graph->input(view(p, p.group(), p.q_len, p.head_dim), "q"), graph->input(key_view(p), "k"),
          graph->input(view(p, 1, p.kv_len, p.head_dim_v), "v")};
}

// q k^T.
Attributes product(const Problem& p) {
  Attributes attributes;
  attributes.transpose_b = !p.keys_transposed();
  return attributes;
}

Attributes scaled(const Problem& p) {
  Attributes attributes;
  attributes.factor = 1 / std::sqrt(static_cast<double>(p.head_dim));
  return attributes;
}

Attributes causal() {
  Attributes attributes;
  attributes.right = 0;
  return attributes;
}

// How a candidate cuts a problem.
struct AttentionCuts {
  std::int64_t rows, tiles;         // queries of a tile, tiles
  std::int64_t pack, groups;        // heads of a tile, tiles of a group
  std::int64_t keys, steps, share;  // of a step, steps of a block, keys of a block
  std::int64_t splits;
};

AttentionCuts cuts_of(const Problem& p, const Candidate& candidate) {
  const CandidateShape c = shape_of(candidate);
  AttentionCuts cuts = {};
  cuts.pack = c.pack;
  cuts.groups = p.group() / c.pack;
  cuts.rows = std::clamp<std::int64_t>(c.rows / c.pack, 1, p.q_len);
  cuts.tiles = ceil_div(p.q_len, cuts.rows);
  cuts.splits = c.splits;
  const std::int64_t share = ceil_div(ceil_div(p.kv_len, c.keys), c.splits) * c.keys;
  cuts.share = std::min<std::int64_t>(share, p.kv_len);
  cuts.keys = std::min<std::int64_t>(c.cta_keys, cuts.share);
  cuts.steps = ceil_div(cuts.share, cuts.keys);
  return cuts;
}

std::vector<std::int64_t> grid_of(const Problem& p, const AttentionCuts& cuts, bool split) {
  std::vector<std::int64_t> grid = {cuts.tiles, cuts.groups, p.kv_heads, p.batch};
  if (split) grid.push_back(cuts.splits);
  return grid;
}

// q and out; with dimensions before these, as a partial result has its splits.
TileMap rows_map(const AttentionCuts& cuts, std::size_t grid_rank, std::int64_t before = 0) {
  TileMap map;
  map.grid.resize(grid_rank);
  map.grid[kTiles] = {before + kRow, cuts.rows};
  map.grid[kGroups] = {before + kGroup, cuts.pack};
  map.grid[kHeads] = {before + kKvHead, 1};
  map.grid[kBatches] = {before + kBatch, 1};
  return map;
}

// `keys`: the dimension that they lie along.
TileMap keys_map(const AttentionCuts& cuts, std::size_t grid_rank, Dim keys) {
  TileMap map;
  map.grid.resize(grid_rank);
  map.grid[kHeads] = {kKvHead, 1};
  map.grid[kBatches] = {kBatch, 1};
  if (grid_rank > kSplits) map.grid[kSplits] = {keys, cuts.share};
  map.loop = {keys, cuts.keys};
  return map;
}

TileMap partial_map(const AttentionCuts& cuts) {
  TileMap map = rows_map(cuts, kSplits + 1, 1);
  map.grid[kSplits] = {0, 1};
  return map;
}

struct Running {
  int maximum, total, rows;
};

// Scores of the tile's rows with a tile of keys, folded into maximum, total and rows.
Running add_loop(const Problem& p, const AttentionCuts& cuts, std::size_t grid_rank, BlockBuilder* block) {
  const int q = block->load(0, rows_map(cuts, grid_rank), "q_tile");
  block->loop();
  const int k = block->load(1, keys_map(cuts, grid_rank, p.keys_transposed() ? kColumn : kRow), "k_tile");
  const int v = block->load(2, keys_map(cuts, grid_rank, kRow), "v_tile");
  int scores = block->add(Op::kMatmul, {q, k}, product(p), "products");
  scores = block->add(Op::kScale, {scores}, scaled(p), "scores");
  if (p.causal()) scores = block->add(Op::kMask, {scores}, causal(), "masked");
  const int tile_maximum = block->add(Op::kMax, {scores}, attributes_along(-1), "tile_maximum");
  const int maximum = block->add(Op::kRunningMax, {tile_maximum}, {}, "maximum");
  const int shifted = block->add(Op::kSubMax, {scores, maximum}, {}, "shifted");
  const int weights = block->add(Op::kExp, {shifted}, {}, "weights");
  const int weight_sum = block->add(Op::kSum, {weights}, attributes_along(-1), "weight_sum");
  const int total = block->add(Op::kAccumulateRescaled, {weight_sum, maximum}, {}, "total");
  const int weighted = block->add(Op::kMatmul, {weights, v}, {}, "weighted");
  const int rows = block->add(Op::kAccumulateRescaled, {weighted, maximum}, {}, "rows");
  block->after();
  return {maximum, total, rows};
}

void add_flash(const Problem& p, const Candidate& c, const Inputs& inputs, KernelBuilder* graph) {
  const AttentionCuts cuts = cuts_of(p, c);
  const std::vector<int> operands = {inputs.q, inputs.k, inputs.v};
  BlockBuilder block(graph->specs(operands), grid_of(p, cuts, false), cuts.steps);
  const Running running = add_loop(p, cuts, kSplits, &block);
  const int out = block.add(Op::kNormalize, {running.rows, running.total}, {}, "normalised");
  block.store(out, rows_map(cuts, kSplits), view(p, p.group(), p.q_len, p.head_dim_v), "out");
  block.threads(thread_plan(c));
  graph->custom(operands, block);
}

// Each split's share of maximum, total and rows, in float32.
std::vector<int> add_partials(const Problem& p, const Candidate& c, const Inputs& inputs, KernelBuilder* graph) {
  const AttentionCuts cuts = cuts_of(p, c);
  const std::vector<int> operands = {inputs.q, inputs.k, inputs.v};
  BlockBuilder block(graph->specs(operands), grid_of(p, cuts, true), cuts.steps);
  const Running running = add_loop(p, cuts, kSplits + 1, &block);
  const TileMap map = partial_map(cuts);
  const auto store = [&](int value, std::int64_t columns, const char* name) {
    const int part = block.add(Op::kUnsqueeze, {value}, attributes_along(0));
    const Dims dims = {cuts.splits, p.batch, p.kv_heads, p.group(), p.q_len, columns};
    block.store(part, map, {dims, ElementType::kF32}, name);
  };
  store(running.maximum, 1, "part_maximum");
  store(running.total, 1, "part_total");
  store(running.rows, p.head_dim_v, "part_rows");
  block.threads(thread_plan(c));
  return graph->custom(operands, block);
}

void add_merge(const Problem& p, const Candidate& c, const std::vector<int>& partials, KernelBuilder* graph) {
  const AttentionCuts cuts = cuts_of(p, c);
  BlockBuilder block(graph->specs(partials), grid_of(p, cuts, false));
  const TileMap map = rows_map(cuts, kSplits, 1);
  const int maxima = block.load(0, map, "maxima"), totals = block.load(1, map, "totals"),
            rows = block.load(2, map, "rows");
  const int maximum = block.add(Op::kMax, {maxima}, attributes_along(0), "maximum");
  const int shifted = block.add(Op::kSubMax, {maxima, maximum}, {}, "shifted");
  const int weights = block.add(Op::kExp, {shifted}, {}, "weights");
  const auto merge = [&](int parts) {
    return block.add(Op::kSum, {block.add(Op::kMul, {parts, weights})}, attributes_along(0));
  };
  const int total = merge(totals), sum = merge(rows);
  const int out = block.add(Op::kNormalize, {sum, total}, {}, "normalised");
  const int squeezed = block.add(Op::kSqueeze, {out}, attributes_along(0));
  block.store(squeezed, rows_map(cuts, kSplits), view(p, p.group(), p.q_len, p.head_dim_v), "out");
  block.threads(thread_plan(c));
  graph->custom(partials, block);
}

KernelGraph finish(const KernelBuilder& builder) {
  KernelGraph graph;
  Status status = builder.finish(&graph);
  (void)status;  // a checked problem gives a valid graph; tests see to it
  return graph;
}

}  // namespace

KernelGraph attention_graph(const Problem& problem) {
  KernelBuilder graph;
  const Inputs inputs = add_inputs(problem, &graph);
  int scores = graph.add(Op::kMatmul, {inputs.q, inputs.k}, product(problem), "products");
  scores = graph.add(Op::kScale, {scores}, scaled(problem), "scores");
  if (problem.causal()) scores = graph.add(Op::kMask, {scores}, causal(), "masked");
  const int weights = graph.add(Op::kSoftmax, {scores}, attributes_along(-1), "weights");
  graph.add(Op::kMatmul, {weights, inputs.v}, {}, "out");
  return finish(graph);
}

KernelGraph attention_program(const Problem& problem, const Candidate& candidate) {
  KernelBuilder graph;
  const Inputs inputs = add_inputs(problem, &graph);
  if (shape_of(candidate).splits > 1) {
    add_merge(problem, candidate, add_partials(problem, candidate, inputs, &graph), &graph);
  } else {
    add_flash(problem, candidate, inputs, &graph);
  }
  return finish(graph);
}

}  // namespace gqa

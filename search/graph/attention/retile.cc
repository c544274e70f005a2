// retile.cc: see retile.h: attention as plain operators again, with the way over the loop that flash attention takes,
// lowered (lower.h) with other cuts.
#include "search/graph/attention/retile.h"

#include <algorithm>

#include "search/families/resources.h"
#include "search/graph/attention/attention_match.h"
#include "search/graph/enumerate/lower.h"

namespace gqa {
namespace {

Attributes last_dim() { return {}; }

Attributes transposed(bool a, bool b) {
  Attributes attributes;
  attributes.transpose_a = a;
  attributes.transpose_b = b;
  return attributes;
}

// The graph that a match stands for, and how flash attention goes over its loop, node by node.
class Plain {
 public:
  bool build(const KernelGraph& from, const AttentionMatch& match) {
    for (const int input : from.inputs()) {
      int tensor = -1;
      ok_ = ok_ && graph.add_input(from.spec(input), &tensor, from.tensor(input).name).ok();
      if (input == match.q.tensor) q_ = tensor;
      if (input == match.k.tensor) k_ = tensor;
      if (input == match.v.tensor) v_ = tensor;
    }
    const int weights = add_weights(match);
    const int rows = add_loop(Op::kMatmul, {weights, through(v_, match.v.views, kInLoop)},
                              transposed(false, match.v.transposed), "rows");
    values = last();
    placements.back() = rescaled();
    const int total = add_loop(Op::kSum, {weights}, last_dim(), "total");
    placements.back() = rescaled();
    int out = add(match.division, {rows, total}, {}, kAfterLoop, "normalised");
    out = through(out, match.views, kAfterLoop);
    return ok_ && graph.mark_output(out).ok();
  }

  KernelGraph graph;
  std::vector<Placement> placements;
  std::size_t scores = 0, values = 0;  // the two products' nodes

 private:
  static constexpr Placement kBeforeLoop = {Phase::kBefore, Carry::kNone, -1};
  static constexpr Placement kInLoop = {Phase::kLoop, Carry::kNone, -1};
  static constexpr Placement kAfterLoop = {Phase::kAfter, Carry::kNone, -1};

  std::size_t last() const { return placements.size() - 1; }
  Placement rescaled() const { return {Phase::kLoop, Carry::kRescaledSum, maximum_}; }

  int add(Op op, std::vector<int> inputs, const Attributes& attributes, Placement placement, const char* name = "") {
    int tensor = -1;
    const bool free = graph.find(name) < 0;
    ok_ = ok_ && graph.add(op, std::move(inputs), attributes, &tensor, free ? name : "").ok();
    placements.push_back(placement);
    return tensor;
  }
  int add_loop(Op op, std::vector<int> inputs, const Attributes& attributes, const char* name = "") {
    return add(op, std::move(inputs), attributes, kInLoop, name);
  }

  int through(int tensor, const std::vector<ScoreStep>& views, Placement placement) {
    for (const ScoreStep& view : views) tensor = add(view.op, {tensor}, view.attributes, placement);
    return tensor;
  }

  // exp(scores − their maximum), the maximum a running one.
  int add_weights(const AttentionMatch& match) {
    const int q = through(q_, match.q.views, kBeforeLoop), k = through(k_, match.k.views, kInLoop);
    int score = add_loop(Op::kMatmul, {q, k}, transposed(match.q.transposed, !match.k.transposed), "scores");
    scores = last();
    for (const ScoreStep& step : match.scores) score = add_loop(step.op, {score}, step.attributes);
    const int top = add(Op::kMax, {score}, last_dim(), {Phase::kLoop, Carry::kRunningMaximum, -1}, "maximum");
    maximum_ = static_cast<int>(last());
    return add_loop(Op::kExp, {add_loop(Op::kSubMax, {score, top}, {}, "shifted")}, {}, "weights");
  }

  int q_ = -1, k_ = -1, v_ = -1, maximum_ = -1;
  bool ok_ = true;
};

// Which dimension of the section is what. Leading dimensions as the second product's result has them.
struct Roles {
  std::vector<int> plain, group;  // group: keys and values are stretched over it
  int row = kNoDimension, keys = kNoDimension;
};

Roles roles_of(const Section& section, std::size_t scores, std::size_t values) {
  const DimensionIds &result = section.results[values], &k = section.reads[scores][1], &v = section.reads[values][1];
  Roles roles;
  const auto has = [](const DimensionIds& ids, int id) { return std::count(ids.begin(), ids.end(), id) > 0; };
  for (std::size_t at = 0; at + 2 < result.size(); ++at) {
    if (result[at] == kNoDimension) continue;
    (has(k, result[at]) || has(v, result[at]) ? roles.plain : roles.group).push_back(result[at]);
  }
  roles.row = result[result.size() - 2];
  roles.keys = section.results[scores].back();
  return roles;
}

bool may_cut(const Section& section, const Roles& roles) {
  std::vector<int> cut = roles.plain;
  cut.insert(cut.end(), roles.group.begin(), roles.group.end());
  if (roles.row != kNoDimension) cut.push_back(roles.row);
  const auto& dims = section.dimensions;
  return roles.keys != kNoDimension && dims[static_cast<std::size_t>(roles.keys)].may_loop() &&
         std::all_of(cut.begin(), cut.end(), [&](int id) { return dims[static_cast<std::size_t>(id)].may_grid(); });
}

// Packed heads are neighbours: whole inner dimensions of the group, then a part of the next.
bool pack_heads(const Section& section, const Roles& roles, std::int64_t pack, std::vector<std::int64_t>* tiles) {
  for (auto id = roles.group.rbegin(); id != roles.group.rend(); ++id) {
    const std::int64_t size = section.dimensions[static_cast<std::size_t>(*id)].size;
    const std::int64_t tile = std::min(pack, size);
    if (size % tile != 0 || pack % tile != 0) return false;
    (*tiles)[static_cast<std::size_t>(*id)] = tile;
    pack /= tile;
  }
  return pack == 1;
}

std::optional<Cuts> cuts_of(const Section& section, const Roles& roles, const CandidateShape& shape) {
  Cuts cuts;
  cuts.tiles.resize(section.dimensions.size(), 0);
  for (const int id : roles.plain) cuts.tiles[static_cast<std::size_t>(id)] = 1;
  if (!pack_heads(section, roles, shape.pack, &cuts.tiles)) return std::nullopt;
  if (roles.row != kNoDimension) {
    const auto row = static_cast<std::size_t>(roles.row);
    cuts.tiles[row] = std::clamp<std::int64_t>(shape.rows / shape.pack, 1, section.dimensions[row].size);
  }
  cuts.loop_tile = shape.keys;
  cuts.splits = shape.splits;
  return cuts;
}

// The same kernels under a thread plan; the last one stores `out`.
std::optional<KernelGraph> planned(const KernelGraph& graph, const ThreadPlan& plan, const KernelTensor& out) {
  KernelGraph made;
  std::vector<int> tensors(graph.tensors().size(), -1);
  bool ok = true;
  for (const int input : graph.inputs())
    ok = ok &&
         made.add_input(graph.spec(input), &tensors[static_cast<std::size_t>(input)], graph.tensor(input).name).ok();
  for (const KernelNode& node : graph.nodes()) {
    if (!ok || !node.block) return std::nullopt;
    BlockGraph block = *node.block;
    block.threads = plan;
    if (&node == &graph.nodes().back()) {
      block.stores.back().result = out.spec;
      block.stores.back().name = made.find(out.name) < 0 ? out.name : "";
    }
    std::vector<int> inputs, results;
    for (const int input : node.inputs) inputs.push_back(tensors[static_cast<std::size_t>(input)]);
    ok = made.add_custom(std::move(inputs), std::move(block), &results).ok();
    for (std::size_t at = 0; at < results.size(); ++at)
      tensors[static_cast<std::size_t>(node.outputs[at])] = results[at];
  }
  return ok ? std::optional(made) : std::nullopt;
}

}  // namespace

std::optional<KernelGraph> plain_attention(const KernelGraph& attention) {
  const auto match = match_attention(attention);
  Plain plain;
  return match && plain.build(attention, *match) ? std::optional(plain.graph) : std::nullopt;
}

std::optional<KernelGraph> retile(const KernelGraph& attention, const Candidate& candidate) {
  const auto match = match_attention(attention);
  Plain plain;
  if (!match || !plain.build(attention, *match)) return std::nullopt;
  const Section section = section_of(plain.graph);
  const Roles roles = roles_of(section, plain.scores, plain.values);
  if (!may_cut(section, roles)) return std::nullopt;
  const auto cuts = cuts_of(section, roles, shape_of(candidate));
  if (!cuts) return std::nullopt;
  Reason reason = Reason::kMalformed;
  const auto lowered = lower(section, {roles.keys, plain.placements}, *cuts, &reason);
  return lowered ? planned(*lowered, thread_plan(candidate), attention.tensor(match->out)) : std::nullopt;
}

}  // namespace gqa

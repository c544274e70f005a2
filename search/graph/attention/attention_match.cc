// attention_match.cc: see attention_match.h: from the stored result back to the loads.
#include "search/graph/attention/attention_match.h"

#include <algorithm>

namespace gqa {
namespace {

// A custom operator's block, read from values back to what they are made of.
struct Block {
  const KernelNode& kernel;
  const BlockGraph& graph = *kernel.block;

  const BlockNode& node(int at) const { return graph.nodes[static_cast<std::size_t>(at)]; }
  bool is(int at, Op op) const { return at >= 0 && node(at).op == op; }
  int input(int at, std::size_t which) const { return node(at).inputs[which]; }
  // What `op` at `at` reads; -1 where another operator stands there.
  int before(int at, Op op) const { return is(at, op) ? input(at, 0) : -1; }
  ScoreStep step(int at) const { return {node(at).op, node(at).attributes}; }
  int tensor(int load) const { return kernel.inputs[static_cast<std::size_t>(node(load).operand)]; }
};

bool is_view(Op op) { return op == Op::kTranspose || op == Op::kSqueeze || op == Op::kUnsqueeze; }

bool is_last(const Block& block, int at) {
  const std::int64_t dim = block.node(at).attributes.dim;
  const auto rank = static_cast<std::int64_t>(block.node(block.input(at, 0)).axes.size());
  return dim == rank - 1 || dim == -1;
}

// The result of a loop, or what a merge makes of the results of several.
struct Ends {
  int rows = -1, total = -1;  // values of the loop's block: accumulators
  int maximum = -1;           // whose running maximum the merge goes by; -1: there is none
};

class Matcher {
 public:
  explicit Matcher(const KernelGraph& graph) : graph_(graph) {}

  std::optional<AttentionMatch> run() {
    const auto custom = [](const KernelNode& node) { return node.block != nullptr; };
    const auto& nodes = graph_.nodes();
    if (nodes.empty() || nodes.size() > 2 || !std::all_of(nodes.begin(), nodes.end(), custom)) return std::nullopt;
    found_.split = nodes.size() == 2;
    Ends ends;
    if (!read_result({nodes.back()}, &ends) || !read_loop({nodes.front()}, ends)) return std::nullopt;
    return found_;
  }

 private:
  // The last kernel: its store, views, the division; for a merge the values of the first kernel behind its operands.
  bool read_result(const Block& last, Ends* ends) {
    if (last.graph.stores.size() != 1 || graph_.outputs() != last.kernel.outputs) return false;
    found_.out = last.kernel.outputs[0];
    int at = last.graph.stores[0].value;
    for (; is_view(last.node(at).op); at = last.input(at, 0)) found_.views.insert(found_.views.begin(), last.step(at));
    if (!last.is(at, Op::kNormalize) && !last.is(at, Op::kDiv)) return false;
    found_.division = last.node(at).op;
    ends->rows = last.input(at, 0);
    ends->total = last.input(at, 1);
    return !found_.split || read_merge(last, ends);
  }

  // rows and total: each the sum of its parts, weighted. The dimension of the parts goes before the division, or after.
  bool read_merge(const Block& merge, Ends* ends) {
    const bool squeezed = merge.is(ends->rows, Op::kSqueeze);
    if (!squeezed) {
      if (found_.views.empty() || found_.views[0].op != Op::kSqueeze || found_.views[0].attributes.dim != 0)
        return false;
      found_.views.erase(found_.views.begin());
    }
    int maximum = -1;
    return read_parts(merge, squeezed, &ends->rows, &ends->maximum) &&
           read_parts(merge, squeezed, &ends->total, &maximum) && maximum == ends->maximum;
  }

  bool read_parts(const Block& merge, bool squeezed, int* value, int* maximum) const {
    int at = squeezed ? merge.before(*value, Op::kSqueeze) : *value;
    at = merge.before(at, Op::kSum);
    if (!merge.is(at, Op::kMul)) return false;
    const bool weights_first = merge.is(merge.input(at, 0), Op::kExp);
    *value = part_of(merge, merge.input(at, weights_first ? 1 : 0));
    *maximum = weights_of(merge, merge.input(at, weights_first ? 0 : 1));
    return *value >= 0 && *maximum >= 0;
  }

  // exp(maxima − their maximum): the maxima.
  int weights_of(const Block& merge, int at) const {
    const int shifted = merge.before(at, Op::kExp);
    if (!merge.is(shifted, Op::kSubMax) && !merge.is(shifted, Op::kSub)) return -1;
    const int maxima = merge.input(shifted, 0);
    return merge.before(merge.input(shifted, 1), Op::kMax) == maxima ? part_of(merge, maxima) : -1;
  }

  // The first kernel's value whose parts a load reads.
  int part_of(const Block& merge, int load) const {
    if (!merge.is(load, Op::kLoad)) return -1;
    const Block first = {graph_.nodes().front()};
    const auto& made = first.kernel.outputs;
    const auto at = std::find(made.begin(), made.end(), merge.tensor(load));
    if (at == made.end()) return -1;
    return first.before(first.graph.stores[static_cast<std::size_t>(at - made.begin())].value, Op::kUnsqueeze);
  }

  // rows = weights v and total = the weights' sum, both rescaled as the maximum of the scores moves.
  bool read_loop(const Block& loop, const Ends& ends) {
    if (!loop.is(ends.rows, Op::kAccumulateRescaled) || !loop.is(ends.total, Op::kAccumulateRescaled)) return false;
    const int maximum = loop.input(ends.rows, 1);
    if (loop.input(ends.total, 1) != maximum || (found_.split && ends.maximum != maximum)) return false;
    const int weighted = loop.input(ends.rows, 0), sum = loop.input(ends.total, 0);
    if (!loop.is(weighted, Op::kMatmul) || !loop.is(sum, Op::kSum) || !is_last(loop, sum)) return false;
    const int weights = loop.input(weighted, 0);
    if (loop.input(sum, 0) != weights || loop.node(weighted).attributes.transpose_a) return false;
    found_.v.transposed = loop.node(weighted).attributes.transpose_b;
    return read_operand(loop, loop.input(weighted, 1), &found_.v, nullptr) && read_weights(loop, weights, maximum);
  }

  bool read_weights(const Block& loop, int weights, int maximum) {
    const int shifted = loop.before(weights, Op::kExp);
    if (!loop.is(shifted, Op::kSubMax) && !loop.is(shifted, Op::kSub)) return false;
    const int scores = loop.input(shifted, 0), top = loop.before(maximum, Op::kRunningMax);
    if (loop.input(shifted, 1) != maximum || loop.before(top, Op::kMax) != scores || !is_last(loop, top)) return false;
    return read_scores(loop, scores);
  }

  // Operators on each score, back to the product of q and k.
  bool read_scores(const Block& loop, int at) {
    std::vector<ScoreStep> steps;
    for (; !loop.is(at, Op::kMatmul); at = loop.input(at, 0)) {
      const OpClass kind = info(loop.node(at).op).kind;
      const bool each = kind == OpClass::kMask || kind == OpClass::kElementwise;
      if (!each || loop.node(at).inputs.size() != 1) return false;
      steps.insert(steps.begin(), loop.step(at));
    }
    found_.q.transposed = loop.node(at).attributes.transpose_a;
    found_.k.transposed = !loop.node(at).attributes.transpose_b;
    std::vector<ScoreStep> scales;
    if (!read_operand(loop, loop.input(at, 0), &found_.q, &scales)) return false;
    if (!read_operand(loop, loop.input(at, 1), &found_.k, &scales)) return false;
    found_.scores = std::move(scales);
    found_.scores.insert(found_.scores.end(), steps.begin(), steps.end());
    return true;
  }

  // Views and, where `scales` may take them, scalings, back to the load of an input.
  bool read_operand(const Block& loop, int at, AttentionOperand* operand, std::vector<ScoreStep>* scales) const {
    for (; !loop.is(at, Op::kLoad); at = loop.input(at, 0)) {
      if (is_view(loop.node(at).op)) {
        operand->views.insert(operand->views.begin(), loop.step(at));
      } else if (loop.is(at, Op::kScale) && scales) {
        scales->push_back(loop.step(at));
      } else {
        return false;
      }
    }
    operand->tensor = loop.tensor(at);
    return graph_.tensor(operand->tensor).node < 0;
  }

  const KernelGraph& graph_;
  AttentionMatch found_;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const KernelGraph& graph) { return Matcher(graph).run(); }

}  // namespace gqa

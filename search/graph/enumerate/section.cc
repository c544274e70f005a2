// section.cc: see section.h. Dimensions are found by joining those that an operator lines up.
#include "search/graph/enumerate/section.h"

#include <algorithm>

#include "search/graph/ir/joined_dims.h"

namespace gqa {
namespace {

class Analysis {
 public:
  explicit Analysis(Section* section) : section_(*section) {}

  void run() {
    join_all();
    for (std::size_t at = 0; at < nodes().size(); ++at) {
      section_.results.push_back(ids(slots_[at]));
      std::vector<DimensionIds> reads;
      for (const DimSlots& use : uses_[at]) reads.push_back(ids(use));
      section_.reads.push_back(std::move(reads));
    }
    for (std::size_t at = 0; at < nodes().size(); ++at) mark_uses(at);
    mark_outputs();
  }

 private:
  const std::vector<KernelNode>& nodes() const { return section_.graph.nodes(); }

  void join_all() {
    for (const KernelNode& node : nodes()) {
      std::vector<DimSlots> uses;
      for (const int input : node.inputs) {
        const int maker = section_.graph.tensor(input).node;
        uses.push_back(maker < 0 ? joiner_.slots(section_.graph.spec(input).dims)
                                 : slots_[static_cast<std::size_t>(maker)]);
      }
      slots_.push_back(joiner_.slots(section_.graph.spec(node.outputs[0]).dims));
      join_dims(node, uses, slots_.back(), &joiner_);
      uses_.push_back(std::move(uses));
    }
    for (const int input : section_.graph.inputs()) join_uses(input);
  }

  bool reduced(int slot) const {
    for (std::size_t at = 0; at < nodes().size(); ++at) {
      const OpClass kind = info(nodes()[at].op).kind;
      if (kind != OpClass::kContraction && kind != OpClass::kReduction) continue;
      if (runs_through(uses_[at][0], slot) && !runs_through(slots_[at], slot)) return true;
    }
    return false;
  }

  bool runs_through(const DimSlots& slots, int slot) const {
    return std::any_of(slots.begin(), slots.end(), [&](int each) { return joiner_.root(each) == joiner_.root(slot); });
  }

  // Two operators that sum over the same dimension of a tensor that both read do so in one loop; likewise where neither
  // sums. (The rows and the keys of x x^T are different dimensions, though.)
  void join_uses(int input) {
    const DimSlots* first = nullptr;
    for (std::size_t at = 0; at < nodes().size(); ++at) {
      for (std::size_t which = 0; which < uses_[at].size(); ++which) {
        if (nodes()[at].inputs[which] != input) continue;
        const DimSlots& use = uses_[at][which];
        for (std::size_t dim = 0; first && dim < use.size(); ++dim) {
          if (reduced(use[dim]) == reduced((*first)[dim])) joiner_.join(use[dim], (*first)[dim]);
        }
        if (!first) first = &use;
      }
    }
  }

  DimensionIds ids(const DimSlots& slots) {
    DimensionIds found;
    for (const int slot : slots) found.push_back(joiner_.size(slot) == 1 ? kNoDimension : id(joiner_.root(slot)));
    for (const int each : found) {
      if (each != kNoDimension && std::count(found.begin(), found.end(), each) > 1) dimension(each).twice = true;
    }
    return found;
  }

  int id(int root) {
    const auto known = std::find(roots_.begin(), roots_.end(), root);
    if (known != roots_.end()) return static_cast<int>(known - roots_.begin());
    roots_.push_back(root);
    section_.dimensions.push_back({joiner_.size(root)});
    return static_cast<int>(roots_.size()) - 1;
  }

  Dimension& dimension(int at) { return section_.dimensions[static_cast<std::size_t>(at)]; }

  void mark_uses(std::size_t at) {
    for (std::size_t each = 0; each < section_.dimensions.size(); ++each) {
      if (section_.reduces(at, static_cast<int>(each))) section_.dimensions[each].reduced = true;
    }
    if (nodes()[at].op != Op::kMatmul) return;
    const DimensionIds& result = section_.results[at];
    for (std::size_t batch = 0; batch + 2 < result.size(); ++batch) {
      if (result[batch] == kNoDimension) continue;
      for (const DimensionIds& use : section_.reads[at]) {
        if (std::count(use.begin(), use.end(), result[batch]) == 0) dimension(result[batch]).shared = true;
      }
    }
  }

  void mark_outputs() {
    const std::vector<int> outputs = section_.graph.outputs();
    for (std::size_t at = 0; at < outputs.size(); ++at) {
      const DimensionIds& of = section_.results[static_cast<std::size_t>(section_.graph.tensor(outputs[at]).node)];
      for (std::size_t each = 0; each < section_.dimensions.size(); ++each) {
        if (std::count(of.begin(), of.end(), static_cast<int>(each)) == 0) section_.dimensions[each].in_outputs = false;
      }
      if (at == 0) mark_roles(last_product(of));
    }
  }

  // Views after the last product may have moved its rows and columns.
  const DimensionIds& last_product(const DimensionIds& otherwise) const {
    for (std::size_t at = nodes().size(); at-- > 0;) {
      if (nodes()[at].op == Op::kMatmul) return section_.results[at];
    }
    return otherwise;
  }

  void mark_roles(const DimensionIds& of) {
    for (std::size_t back = 0; back < std::min<std::size_t>(2, of.size()); ++back) {
      const int which = of[of.size() - 1 - back];
      if (which != kNoDimension) dimension(which).role = back == 0 ? DimensionRole::kColumn : DimensionRole::kRow;
    }
  }

  Section& section_;
  DimJoiner joiner_;
  std::vector<DimSlots> slots_;              // of each node's result
  std::vector<std::vector<DimSlots>> uses_;  // of each node's operands
  std::vector<int> roots_;
};

}  // namespace

bool Section::reduces(std::size_t at, int dimension) const {
  const OpClass kind = info(node(at).op).kind;
  if (kind != OpClass::kContraction && kind != OpClass::kReduction) return false;
  const DimensionIds &read = reads[at][0], &result = results[at];
  return std::count(read.begin(), read.end(), dimension) > std::count(result.begin(), result.end(), dimension);
}

int Section::maximum_behind(int tensor) const {
  while (!is_input(tensor) && info(maker(tensor).op).kind == OpClass::kView) tensor = maker(tensor).inputs[0];
  return !is_input(tensor) && maker(tensor).op == Op::kMax ? graph.tensor(tensor).node : -1;
}

bool can_fuse(Op op) {
  const OpInfo& row = info(op);
  return row.level == Level::kBoth && row.kind != OpClass::kRow && row.kind != OpClass::kAccumulator && op != Op::kMean;
}

Section section_of(KernelGraph graph) {
  Section section;
  section.graph = std::move(graph);
  Analysis(&section).run();
  return section;
}

}  // namespace gqa

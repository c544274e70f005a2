// rewrite.cc: see rewrite.h: breadth first over rules and places; rules.cc has the rules.
#include "search/graph/rewrite/rewrite.h"

#include <algorithm>
#include <set>

#include "search/graph/ir/canonical.h"
#include "search/graph/rewrite/value_range.h"

namespace gqa {
namespace {

class Saturation {
 public:
  Saturation(const KernelGraph& graph, std::size_t most, AbstractSpace* abstract, SearchReport* report,
             const Stop& stop)
      : most_(most), abstract_(abstract), report_(report), stop_(stop) {
    keep({graph, {}});
    if (Rewritten opened = open({graph, {}}); !opened.rules.empty()) keep(std::move(opened));
  }

  std::vector<Rewritten> run() {
    for (std::size_t at = found_.size() - 1; at < found_.size(); ++at) expand(at);
    return std::move(found_);
  }

 private:
  // The first graph that a rule of this kind gives; its rules are empty where none does.
  static std::optional<KernelGraph> apply(const Rule& rule, const Site& site) {
    GraphEditor editor(site.graph, rule.always ? ValueOrigin::kOpened : ValueOrigin::kRewritten);
    const int made = rule.apply(site, &editor);
    if (made < 0) return std::nullopt;
    editor.replace(site.node.outputs[0], made);
    return editor.finish();
  }

  template <typename Visit>
  static void for_each_rewriting(const KernelGraph& graph, bool always, Visit visit) {
    for (const KernelNode& node : graph.nodes()) {
      for (std::size_t operand = 0; operand < std::max<std::size_t>(1, node.inputs.size()); ++operand) {
        for (const Rule& rule : rules()) {
          if (rule.always != always || node.block) continue;
          if (auto made = apply(rule, {graph, node, operand})) {
            if (!visit(rule, std::move(*made))) return;
          }
        }
      }
    }
  }

  // Opens names until none is left.
  static Rewritten open(Rewritten from) {
    for (bool changed = true; changed;) {
      changed = false;
      Rewritten next;
      for_each_rewriting(from.graph, true, [&](const Rule& rule, KernelGraph made) {
        next = {std::move(made), from.rules};
        next.rules.push_back(rule.name);
        changed = true;
        return false;
      });
      if (changed) from = std::move(next);
    }
    return from;
  }

  void expand(std::size_t at) {
    const Rewritten from = found_[at];
    for_each_rewriting(from.graph, false, [&](const Rule& rule, KernelGraph made) {
      if (found_.size() >= most_ || (stop_ && stop_())) return report_->exhausted = false;
      Rewritten next = {std::move(made), from.rules};
      next.rules.push_back(rule.name);
      if (keep(open(std::move(next)))) ++report_->rules[std::string(rule.name)];
      return true;
    });
  }

  bool keep(Rewritten candidate) {
    if (!known_.insert(canonical(candidate.graph).digest).second) return prune(Reason::kDuplicate);
    for (const AbstractSpace::Id id : abstract_->tensors(candidate.graph)) {
      if (found_.size() > 1 && !abstract_->part_of_goal(id)) return prune(Reason::kAbstract);
    }
    if (may_overflow(candidate.graph)) return prune(Reason::kOverflow);
    report_->rewrites.keep();
    found_.push_back(std::move(candidate));
    if (found_.size() <= 2) set_goal(found_.back().graph);
    return true;
  }

  // The goal is the graph with its names opened: rules are judged by what stands inside them.
  void set_goal(const KernelGraph& graph) {
    const std::vector<AbstractSpace::Id> ids = abstract_->tensors(graph);
    std::vector<AbstractSpace::Id> goal;
    for (const int output : graph.outputs()) goal.push_back(ids[static_cast<std::size_t>(output)]);
    for (const int input : graph.inputs()) goal.push_back(ids[static_cast<std::size_t>(input)]);
    abstract_->set_goal(goal);
  }

  bool prune(Reason reason) {
    report_->rewrites.prune(reason);
    return false;
  }

  const std::size_t most_;
  AbstractSpace* abstract_;
  SearchReport* report_;
  const Stop& stop_;
  std::vector<Rewritten> found_;
  std::set<Digest> known_;
};

}  // namespace

std::vector<Rewritten> saturate(const KernelGraph& graph, std::size_t most, AbstractSpace* abstract,
                                SearchReport* report, const Stop& stop) {
  return Saturation(graph, most, abstract, report, stop).run();
}

}  // namespace gqa

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
    first_ = found_.size() - 1;
    if (Rewritten safe = with_maxima(found_[first_]); safe.rules.size() > found_[first_].rules.size())
      has_safe_ = keep(std::move(safe));
  }

  // What is made of the graph whose exponentials cannot overflow comes before all else, for the bound may come first.
  std::vector<Rewritten> run() {
    if (has_safe_) expand(first_ + 1);
    expand(first_);
    for (std::size_t at = first_ + (has_safe_ ? 2 : 1); at < found_.size(); ++at) expand(at);
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

  // Applies the rules that are wanted, of those that always apply or of the others, until none of them does.
  template <typename Wanted, typename Then>
  static Rewritten exhaust(Rewritten from, bool always, Wanted wanted, Then then) {
    for (bool changed = true; changed;) {
      changed = false;
      Rewritten next;
      for_each_rewriting(from.graph, always, [&](const Rule& rule, KernelGraph made) {
        if (!wanted(rule)) return true;
        next = then({std::move(made), from.rules});
        next.rules.push_back(rule.name);
        changed = true;
        return false;
      });
      if (changed) from = std::move(next);
    }
    return from;
  }

  // Opens names until none is left.
  static Rewritten open(Rewritten from) {
    return exhaust(
        std::move(from), true, [](const Rule&) { return true; }, [](Rewritten made) { return made; });
  }

  // Takes each exponential's maximum off where that changes nothing, until none is left.
  static Rewritten with_maxima(Rewritten from) {
    return exhaust(
        std::move(from), false, [](const Rule& rule) { return rule.name == kSubtractMaximum; }, open);
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
  std::vector<Rewritten> found_;  // the graph, the one with its names opened, the one that is safe
  std::size_t first_ = 0;         // of those that rules are applied to
  bool has_safe_ = false;
  std::set<Digest> known_;
};

}  // namespace

std::vector<Rewritten> saturate(const KernelGraph& graph, std::size_t most, AbstractSpace* abstract,
                                SearchReport* report, const Stop& stop) {
  return Saturation(graph, most, abstract, report, stop).run();
}

}  // namespace gqa

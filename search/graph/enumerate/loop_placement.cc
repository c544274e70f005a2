// loop_placement.cc: see loop_placement.h: depth first over the nodes, each choice tried, most of them dropped at once.
#include "search/graph/enumerate/loop_placement.h"

#include <algorithm>

#include "search/graph/ir/graph_editor.h"
#include "search/graph/prove/shift.h"

namespace gqa {
namespace {

constexpr std::size_t kMostLoopPlacements = 16;

enum class Seen : std::uint8_t { kBefore, kLoop, kAfter, kLoopAndAfter };

struct Value {
  Seen seen = Seen::kBefore;
  bool partial = false;  // of each step its part of a sum
  bool folded = false;   // before the loop, of what it cuts
  AbstractSpace::Id abstract = AbstractSpace::kUnknown;
  Shift shift = {};
};

class Finder {
 public:
  Finder(const Section& section, int loop, const std::vector<AbstractSpace::Id>& inputs, AbstractSpace* abstract,
         SearchReport* report)
      : section_(section), abstract_(*abstract), report_(*report), values_(section.graph.tensors().size()) {
    loop_placement_.loop = loop;
    loop_placement_.nodes.resize(section.graph.nodes().size());
    for (std::size_t at = 0; at < inputs.size(); ++at) value(section.graph.inputs()[at]).abstract = inputs[at];
    wholes_ = values_;
    for (const KernelNode& node : section.graph.nodes()) whole_of(node);
    find_folds();
  }

  std::vector<LoopPlacement> run() {
    visit(0);
    return std::move(found_);
  }

 private:
  Value& value(int tensor) { return values_[static_cast<std::size_t>(tensor)]; }

  // What a tensor is made of when nothing is cut.
  void whole_of(const KernelNode& node) {
    std::vector<AbstractSpace::Id> operands;
    for (const int input : node.inputs) operands.push_back(wholes_[static_cast<std::size_t>(input)].abstract);
    wholes_[static_cast<std::size_t>(node.outputs[0])].abstract = abstract_.node(section_.graph, node, operands);
  }

  // Sums and maxima over the loop's dimension, and elementwise steps that nothing else reads.
  void find_folds() {
    const std::vector<std::vector<int>> read_by = readers(section_.graph);
    const std::vector<int> outputs = section_.graph.outputs();
    folds_.resize(section_.graph.nodes().size(), false);
    if (loop_placement_.loop == kNoDimension) return;
    for (std::size_t at = folds_.size(); at-- > 0;) {
      const int result = section_.node(at).outputs[0];
      const std::vector<int>& by = read_by[static_cast<std::size_t>(result)];
      const OpClass kind = info(section_.node(at).op).kind;
      const bool leads_to_one =
          kind == OpClass::kElementwise && !by.empty() && std::count(outputs.begin(), outputs.end(), result) == 0 &&
          std::all_of(by.begin(), by.end(), [&](int reader) { return folds_[static_cast<std::size_t>(reader)]; });
      folds_[at] = leads_to_one || (kind == OpClass::kReduction && section_.reduces(at, loop_placement_.loop));
    }
  }

  bool cut(const DimensionIds& ids) const { return std::count(ids.begin(), ids.end(), loop_placement_.loop) > 0; }

  // As node `at` sees its operand.
  Value operand(std::size_t at, std::size_t which) {
    const int tensor = section_.node(at).inputs[which];
    Value seen = value(tensor);
    if (section_.is_input(tensor)) seen.seen = cut(section_.reads[at][which]) ? Seen::kLoop : Seen::kBefore;
    return seen;
  }

  void visit(std::size_t at) {
    if (found_.size() >= kMostLoopPlacements) return;
    if (at == section_.graph.nodes().size()) return finish();
    std::vector<Value> operands;
    for (std::size_t which = 0; which < section_.node(at).inputs.size(); ++which)
      operands.push_back(operand(at, which));
    if (!reads_whole(at)) visit_as(at, operands);
    if (folds_[at]) visit_whole(at, std::move(operands));
  }

  // What the loop cuts, as it was computed before the loop.
  bool reads_whole(std::size_t at) {
    for (std::size_t which = 0; which < section_.node(at).inputs.size(); ++which) {
      const int tensor = section_.node(at).inputs[which];
      if (section_.is_input(tensor) || !folds_[static_cast<std::size_t>(section_.graph.tensor(tensor).node)]) continue;
      if (value(tensor).seen == Seen::kBefore && cut(section_.reads[at][which])) return true;
    }
    return false;
  }

  // Before the loop, which cuts an operand; inputs are read whole there.
  void visit_whole(std::size_t at, std::vector<Value> operands) {
    bool whole = false;
    for (std::size_t which = 0; which < operands.size(); ++which) {
      if (section_.is_input(section_.node(at).inputs[which])) operands[which].seen = Seen::kBefore;
      if (operands[which].seen != Seen::kBefore) return;
      if (operands[which].folded && !cut(section_.reads[at][which])) return;  // they would be read a third time
      operands[which].folded = cut(section_.reads[at][which]);
      whole = whole || operands[which].folded;
    }
    if (whole) visit_as(at, operands);
  }

  void visit_as(std::size_t at, const std::vector<Value>& operands) {
    Phase phase = Phase::kBefore;
    if (!phase_of(operands, &phase)) return report_.loop_placements.prune(Reason::kWholeInLoop);
    if (!stays_finite(at, operands)) return report_.loop_placements.prune(Reason::kMaximum);
    Value made;
    if (const Reason* wrong = compute(at, phase, operands, &made)) return report_.loop_placements.prune(*wrong);
    if (phase != Phase::kLoop) return place(at, {phase, Carry::kNone, -1}, made);
    if (section_.node(at).op == Op::kMax && section_.reduces(at, loop_placement_.loop)) return branch_maximum(at, made);
    if (made.partial) branch_sum(at, made);
    place(at, {phase, Carry::kNone, -1}, made);
  }

  static bool phase_of(const std::vector<Value>& operands, Phase* phase) {
    const auto any = [&](Seen seen) {
      return std::any_of(operands.begin(), operands.end(), [&](const Value& v) { return v.seen == seen; });
    };
    const bool loop = any(Seen::kLoop), after = any(Seen::kAfter);
    *phase = loop ? Phase::kLoop : after || any(Seen::kLoopAndAfter) ? Phase::kAfter : Phase::kBefore;
    return !(loop && after);
  }

  // A running maximum is -inf as long as every key is hidden. So it may only be taken from what it bounds, which is
  // -inf then too; lower.cc sees to it that the difference is.
  bool stays_finite(std::size_t at, const std::vector<Value>& operands) const {
    if (section_.node(at).op != Op::kSub && section_.node(at).op != Op::kSubMax) return true;
    if (operands[1].shift.added <= 0) return operands[0].shift.added <= 0;
    const int maximum = section_.maximum_behind(section_.node(at).inputs[1]);
    return maximum >= 0 && operands[0].shift.free() && bounded(section_.node(at).inputs[0], maximum);
  }

  // Whether x is what the node takes the maximum of, or is that with something added or hidden: -inf where that is.
  bool bounded(int x, int maximum) const {
    if (x == section_.node(static_cast<std::size_t>(maximum)).inputs[0]) return true;
    if (section_.is_input(x)) return false;
    const KernelNode& maker = section_.maker(x);
    if (maker.op == Op::kAdd) return bounded(maker.inputs[0], maximum) || bounded(maker.inputs[1], maximum);
    return (maker.op == Op::kSub || maker.op == Op::kMask) && bounded(maker.inputs[0], maximum);
  }

  const Reason* compute(std::size_t at, Phase phase, const std::vector<Value>& operands, Value* made) {
    static constexpr Reason kAbstract = Reason::kAbstract, kMaximum = Reason::kMaximum, kSlower = Reason::kSlower;
    const KernelNode& node = section_.node(at);
    std::vector<AbstractSpace::Id> ids;
    std::vector<Shift> shifts;
    for (const Value& operand : operands) {
      made->partial = made->partial || operand.partial;
      made->folded = made->folded || operand.folded;
      ids.push_back(operand.abstract);
      shifts.push_back(operand.shift);
    }
    if (made->partial && node.op == Op::kMax) return &kAbstract;
    const auto folded = [](const Value& operand) { return operand.folded && operand.seen == Seen::kBefore; };
    if (made->partial && std::any_of(operands.begin(), operands.end(), folded))
      return &kSlower;  // the sum could have it
    const bool part = phase == Phase::kLoop && section_.reduces(at, loop_placement_.loop) && node.op != Op::kMax;
    made->partial = made->partial || part;
    made->seen = phase == Phase::kLoop ? Seen::kLoop : phase == Phase::kAfter ? Seen::kAfter : Seen::kBefore;
    made->abstract = abstract_.node(section_.graph, node, ids);
    if (part) made->abstract = abstract_.sum(made->abstract, 1, -1);
    if (!abstract_.part_of_goal(made->abstract)) return &kAbstract;
    const auto shift = shift_of(node.op, shifts);
    if (!shift) return &kMaximum;
    made->shift = *shift;
    return nullptr;
  }

  void place(std::size_t at, const Placement& placement, const Value& made) {
    const Value before = value(section_.node(at).outputs[0]);
    loop_placement_.nodes[at] = placement;
    value(section_.node(at).outputs[0]) = made;
    visit(at + 1);
    value(section_.node(at).outputs[0]) = before;
  }

  void branch_maximum(std::size_t at, Value made) {
    const Shift operand_shift = made.shift;
    made.seen = Seen::kLoopAndAfter;
    made.shift = {static_cast<int>(at), 0, 1};
    if (operand_shift.free()) place(at, {Phase::kLoop, Carry::kRunningMaximum, -1}, made);
    made.seen = Seen::kAfter;
    made.shift = operand_shift;
    place(at, {Phase::kLoop, Carry::kMaximum, -1}, made);
  }

  void branch_sum(std::size_t at, Value made) {
    made.seen = Seen::kAfter;
    made.partial = false;
    made.abstract = abstract_.sum(made.abstract, 1, 1);
    if (!abstract_.part_of_goal(made.abstract)) return report_.loop_placements.prune(Reason::kAbstract);
    if (made.shift.added != 0 || made.shift.degree < -1 || made.shift.degree > 0)
      return report_.loop_placements.prune(Reason::kMaximum);
    const bool rescaled = made.shift.degree == -1;
    place(at, {Phase::kLoop, rescaled ? Carry::kRescaledSum : Carry::kSum, rescaled ? made.shift.maximum : -1}, made);
  }

  void finish() {
    for (const int output : section_.graph.outputs()) {
      const Value &made = value(output), &whole = wholes_[static_cast<std::size_t>(output)];
      if (!made.shift.free()) return report_.loop_placements.prune(Reason::kMaximum);
      const bool unlike = made.abstract >= 0 && whole.abstract >= 0 && made.abstract != whole.abstract;
      if (made.partial || unlike) return report_.loop_placements.prune(Reason::kAbstract);
    }
    if (!whole_is_read()) return report_.loop_placements.prune(Reason::kSlower);
    report_.loop_placements.keep();
    found_.push_back(loop_placement_);
    found_.back().multiplies_parts = multiplies_parts();
  }

  // Whatever is computed whole before the loop is for the loop to read: after it, the loop itself can have gathered it.
  bool whole_is_read() const {
    std::vector<bool> wanted(values_.size(), false);  // in the loop, or on the way there
    for (std::size_t at = loop_placement_.nodes.size(); at-- > 0;) {
      const bool before = loop_placement_.nodes[at].phase == Phase::kBefore;
      const bool own = wanted[static_cast<std::size_t>(section_.node(at).outputs[0])];
      const auto& reads = section_.reads[at];
      const bool whole =
          folds_[at] && std::any_of(reads.begin(), reads.end(), [&](const DimensionIds& ids) { return cut(ids); });
      if (before && whole && !own) return false;
      if (before ? !own : loop_placement_.nodes[at].phase != Phase::kLoop) continue;
      for (const int input : section_.node(at).inputs) wanted[static_cast<std::size_t>(input)] = true;
    }
    return true;
  }

  bool multiplies_parts() const {
    for (const KernelNode& node : section_.graph.nodes()) {
      for (const int input : node.inputs) {
        if (node.op == Op::kMatmul && values_[static_cast<std::size_t>(input)].partial &&
            section_.graph.spec(input).type == ElementType::kF16)
          return true;
      }
    }
    return false;
  }

  const Section& section_;
  AbstractSpace& abstract_;
  SearchReport& report_;
  std::vector<Value> values_, wholes_;
  std::vector<bool> folds_;  // at nodes: what may be computed whole before the loop
  LoopPlacement loop_placement_;
  std::vector<LoopPlacement> found_;
};

}  // namespace

std::vector<LoopPlacement> find_loop_placements(const Section& section, int loop,
                                                const std::vector<AbstractSpace::Id>& inputs, AbstractSpace* abstract,
                                                SearchReport* report) {
  return Finder(section, loop, inputs, abstract, report).run();
}

}  // namespace gqa

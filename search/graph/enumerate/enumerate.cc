// enumerate.cc: see enumerate.h: a graph's groups of operators, each scheduled once, then the cheapest ways to cover
// the graph with them.
#include "search/graph/enumerate/enumerate.h"

#include <algorithm>
#include <set>

#include "search/graph/attention/attention_form.h"
#include "search/graph/enumerate/partition.h"
#include "search/graph/enumerate/schedule.h"
#include "search/graph/ir/canonical.h"
#include "search/graph/rewrite/value_range.h"

namespace gqa {
namespace {

// Marks kernels that a family of the attention search runs, which no estimate here knows: one program with each is
// kept.
constexpr const char* kAttention = "+attention";

constexpr std::size_t kMostGroups = 192, kMostCovers = 8, kMostSteps = 20000;

const SearchConfig kConfigs[] = {
    {"", {16, 64, 128}, {16, 32, 64, 128}, {32, 64, 128}, {2, 4, 8}, {1, 2, 4, 8, 16, 32}, {1, 4, 16}, 256, 32},
    {"attention", {16, 64, 128}, {128}, {64, 128}, {2, 4, 8, 16}, {1, 2, 4, 8, 16, 32, 64}, {1, 4, 16}, 512, 32},
};

// What a section is, whatever its tensors are called.
std::string key_of(const KernelGraph& part, const std::vector<AbstractSpace::Id>& inputs) {
  std::string key;
  for (std::size_t at = 0; at < inputs.size(); ++at)
    key += to_text(part.spec(part.inputs()[at])) + to_text(part.spec(part.inputs()[at]).strides) + "=" +
           std::to_string(inputs[at]) + ";";
  for (const KernelNode& node : part.nodes()) {
    key += std::string(name(node.op)) + to_text(node.attributes);
    for (const int input : node.inputs) key += "," + std::to_string(input);
  }
  for (const int output : part.outputs()) key += ">" + std::to_string(output);
  return key;
}

// The cheapest ways to cover all units with groups, each unit once.
class Cover {
 public:
  Cover(const std::vector<Group>& groups, const std::vector<double>& seconds, std::size_t units)
      : groups_(groups), seconds_(seconds), all_(~Group{0} >> (64 - units)) {}

  std::vector<std::vector<std::size_t>> run() {
    extend(0, 0);
    std::vector<std::vector<std::size_t>> found;
    for (auto& [cost, cover] : best_) found.push_back(cover);
    return found;
  }

 private:
  void extend(Group covered, double cost) {
    if (best_.size() == kMostCovers && cost >= best_.rbegin()->first) return;
    if (++steps_ > kMostSteps) return;
    if (covered == all_) {
      best_.emplace(cost, chosen_);
      if (best_.size() > kMostCovers) best_.erase(std::prev(best_.end()));
      return;
    }
    const Group next = ~covered & all_ & -(~covered & all_);
    for (std::size_t at = groups_.size(); at-- > 0;) {
      if (!(groups_[at] & next) || (groups_[at] & covered) || seconds_[at] < 0) continue;
      chosen_.push_back(at);
      extend(covered | groups_[at], cost + seconds_[at]);
      chosen_.pop_back();
    }
  }

  const std::vector<Group>& groups_;
  const std::vector<double>& seconds_;
  const Group all_;
  std::size_t steps_ = 0;
  std::vector<std::size_t> chosen_;
  std::multimap<double, std::vector<std::size_t>> best_;
};

bool all_fuse(const KernelGraph& part) {
  return std::all_of(part.nodes().begin(), part.nodes().end(),
                     [](const KernelNode& node) { return can_fuse(node.op); });
}

// 16-bit values that the user's graph does not have: in their type they may overflow, or lose digits that it keeps.
std::vector<bool> foreign_values(const KernelGraph& graph) {
  const std::vector<ValueRange> ranges = value_ranges(graph);
  std::vector<bool> foreign(graph.tensors().size(), false);
  for (const KernelNode& node : graph.nodes()) {
    const auto at = static_cast<std::size_t>(node.outputs[0]);
    const KernelTensor& made = graph.tensors()[at];
    foreign[at] = made.origin != ValueOrigin::kGiven && made.spec.type != ElementType::kF32 &&
                  node.op != Op::kConstant && !ranges[at].in_unit();
  }
  return foreign;
}

// Whether a product of this part reads foreign values from its own kernel. The tensor cores of a GPU take them in 16
// bits, and float16 has neither the range nor, for small numbers, the digits. bfloat16 has the range of float32, and as
// many digits everywhere.
bool multiplies_foreign(const KernelGraph& graph, const std::vector<int>& nodes, const std::vector<bool>& foreign) {
  const auto is_narrow = [&](int tensor) {
    return foreign[static_cast<std::size_t>(tensor)] && graph.spec(tensor).type == ElementType::kF16 &&
           std::count(nodes.begin(), nodes.end(), graph.tensor(tensor).node) > 0;
  };
  return std::any_of(nodes.begin(), nodes.end(), [&](int at) {
    const KernelNode& node = graph.nodes()[static_cast<std::size_t>(at)];
    return node.op == Op::kMatmul && std::any_of(node.inputs.begin(), node.inputs.end(), is_narrow);
  });
}

// Whether a value is the largest of what a kernel computed, or that after operators on one value. Operator by operator
// it is exact: the largest of rounded values. Rounded alone it may lie so far below what it was the largest of that
// exp(x - max(x)) overflows.
bool is_of_maxima(const KernelGraph& graph, int tensor) {
  const KernelNode* node = graph.maker(tensor);
  if (node == nullptr || node->inputs.size() != 1) return false;
  if (node->op == Op::kMax) return graph.maker(node->inputs[0]) != nullptr;
  return is_of_maxima(graph, node->inputs[0]);
}

// How kernels keep what a part of a graph gives. An output is known twice where the part's own operators read what was
// computed and those of other kernels what rounding to 16 bits left of it: what cancels operator by operator, as in
// e / sum(e), does not then. Maxima are known twice wherever another kernel reads them.
struct Kept {
  std::vector<bool> wide;    // of each output: as float32, since it is known twice or foreign, and no user sees it
  bool known_twice = false;  // an output of the graph is: no kernel serves both
  bool foreign = false;      // a foreign value is made: operators one by one would round it
};

Kept kept_of(const KernelGraph& graph, const std::vector<int>& nodes, const KernelGraph& part,
             const std::vector<int>& outputs, const std::vector<bool>& foreign) {
  const std::vector<std::vector<int>> inside = readers(part), all = readers(graph);
  const std::vector<int> results = graph.outputs(), of_part = part.outputs();
  Kept found;
  for (std::size_t at = 0; at < outputs.size(); ++at) {
    const auto own = inside[static_cast<std::size_t>(of_part[at])].size();
    const bool twice = (own > 0 || is_of_maxima(graph, outputs[at])) &&
                       own < all[static_cast<std::size_t>(outputs[at])].size() &&
                       graph.spec(outputs[at]).type != ElementType::kF32;
    const bool result = std::count(results.begin(), results.end(), outputs[at]) > 0;
    found.wide.push_back((twice && !result) || foreign[static_cast<std::size_t>(outputs[at])]);
    found.known_twice = found.known_twice || (twice && result);
  }
  for (const int at : nodes) {
    const int made = graph.nodes()[static_cast<std::size_t>(at)].outputs[0];
    found.foreign = found.foreign || foreign[static_cast<std::size_t>(made)];
  }
  return found;
}

bool one_by_one(const KernelGraph& graph) {
  return std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const KernelNode& node) { return node.block; });
}

// Copies a part's nodes; inputs: the tensors that its inputs are; names: what its outputs are called, where they are;
// wide: which of its outputs kernels store as float32.
std::vector<int> splice(const KernelGraph& part, const std::vector<int>& inputs, const std::vector<std::string>& names,
                        const std::vector<bool>& wide, KernelGraph* graph) {
  const std::vector<int> outputs = part.outputs();
  const auto place_of = [&](int tensor) {
    return static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), tensor) - outputs.begin());
  };
  const auto name_of = [&](int tensor) {
    const std::size_t at = place_of(tensor);
    return at < names.size() && graph->find(names[at]) < 0 ? names[at] : std::string();
  };
  std::vector<int> made(part.tensors().size(), -1);
  for (std::size_t at = 0; at < inputs.size(); ++at) made[static_cast<std::size_t>(part.inputs()[at])] = inputs[at];
  for (const KernelNode& node : part.nodes()) {
    std::vector<int> operands, results(1, -1);
    for (const int input : node.inputs) operands.push_back(made[static_cast<std::size_t>(input)]);
    BlockGraph block = node.block ? *node.block : BlockGraph();
    for (std::size_t at = 0; at < block.stores.size(); ++at) {
      block.stores[at].name = name_of(node.outputs[at]);
      const std::size_t place = place_of(node.outputs[at]);
      if (place < wide.size() && wide[place]) block.stores[at].result.type = ElementType::kF32;
    }
    const Status status = node.block
                              ? graph->add_custom(operands, block, &results)
                              : graph->add(node.op, operands, node.attributes, &results[0], name_of(node.outputs[0]));
    if (!status.ok()) return {};
    for (std::size_t at = 0; at < results.size(); ++at) made[static_cast<std::size_t>(node.outputs[at])] = results[at];
  }
  std::vector<int> copies;
  for (const int output : outputs) copies.push_back(made[static_cast<std::size_t>(output)]);
  return copies;
}

}  // namespace

const SearchConfig* find_config(std::string_view name) {
  for (const SearchConfig& config : kConfigs) {
    if (config.name == name) return &config;
  }
  return nullptr;
}

std::string config_names() {
  std::string names;
  for (const SearchConfig& config : kConfigs) {
    if (!config.name.empty()) names += (names.empty() ? "" : ", ") + std::string(config.name);
  }
  return names;
}

int unsafe_exponents(const KernelGraph& graph) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const KernelNode& node) {
    if (node.op != Op::kExp && node.op != Op::kExp2) return false;
    const KernelNode* shifted = graph.maker(node.inputs[0]);
    if (!shifted || shifted->op == Op::kSubMax) return !shifted;
    const KernelNode* by = shifted->op == Op::kSub ? graph.maker(shifted->inputs[1]) : nullptr;
    return !by || by->op != Op::kMax;
  }));
}

std::vector<Choice> Enumerator::make_choices(const KernelGraph& part, const std::vector<AbstractSpace::Id>& inputs,
                                             bool unit) {
  ++report_.sections;
  std::vector<Choice> choices;
  if (all_fuse(part)) choices = schedules_of(section_of(part), inputs, config_, device_, &abstract_, &report_, stop_);
  for (Choice& choice : choices) {
    if (attention_form(choice.graph)) choice.kind += kAttention;
  }
  if (!unit) return choices;
  if (const auto reason = misfit(part, device_)) {
    report_.kernels.prune(*reason);
  } else {
    report_.kernels.keep();
    choices.push_back({part, seconds(part, device_), "plain"});
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return choices;
}

const std::vector<Choice>& Enumerator::choices_of(const KernelGraph& part, const std::vector<AbstractSpace::Id>& inputs,
                                                  bool unit) {
  const std::string key = key_of(part, inputs) + (unit ? "u" : "");
  const auto known = known_.find(key);
  return known != known_.end() ? known->second : known_[key] = make_choices(part, inputs, unit);
}

void Enumerator::add(const Rewritten& rewritten) {
  const KernelGraph& graph = rewritten.graph;
  if (graph.nodes().empty()) return;
  const Units units = units_of(graph);
  const std::vector<AbstractSpace::Id> ids = abstract_.tensors(graph);
  const std::vector<Group> groups = groups_of(units, kMostGroups);
  const std::vector<bool> foreign = foreign_values(graph);
  std::vector<double> best;
  std::vector<std::vector<Part>> parts;  // of each group, one a choice
  for (const Group group : groups) {
    std::vector<int> inputs, outputs;
    const std::vector<int> nodes = nodes_of(units, group);
    const KernelGraph part = extract(graph, nodes, &inputs, &outputs);
    std::vector<AbstractSpace::Id> of_inputs;
    for (const int input : inputs) of_inputs.push_back(ids[static_cast<std::size_t>(input)]);
    const std::vector<Choice>& choices = choices_of(part, of_inputs, (group & (group - 1)) == 0);
    const Kept kept = kept_of(graph, nodes, part, outputs, foreign);
    const bool narrow = device_.kind == DeviceKind::kCuda && multiplies_foreign(graph, nodes, foreign);
    std::vector<Part>& of_group = parts.emplace_back();
    for (const Choice& choice : choices) {
      if (one_by_one(choice.graph) ? kept.foreign : kept.known_twice || narrow)
        report_.programs.prune(Reason::kRounded);
      else
        of_group.push_back({inputs, outputs, kept.wide, &choice});
    }
    best.push_back(of_group.empty() ? -1 : of_group[0].choice->seconds);
  }
  const int unsafe = unsafe_exponents(graph);
  for (const std::vector<std::size_t>& cover : Cover(groups, best, units.nodes.size()).run()) {
    std::vector<std::vector<Part>> chosen;
    for (const std::size_t at : cover) chosen.push_back(parts[at]);
    add_drafts(rewritten, chosen, unsafe);
  }
}

// The best choice everywhere, and then each other choice in each place.
void Enumerator::add_drafts(const Rewritten& rewritten, const std::vector<std::vector<Part>>& parts, int unsafe) {
  const auto add_one = [&](std::size_t place, std::size_t choice) {
    Draft draft = {&rewritten, {}, 0, unsafe, ""};
    for (std::size_t at = 0; at < parts.size(); ++at) {
      draft.parts.push_back(parts[at][at == place ? choice : 0]);
      draft.seconds += draft.parts.back().choice->seconds;
    }
    draft.kind = kind_of(draft);
    drafts_.push_back(std::move(draft));
  };
  add_one(0, 0);
  for (std::size_t place = 0; place < parts.size(); ++place) {
    for (std::size_t choice = 1; choice < parts[place].size(); ++choice) add_one(place, choice);
  }
}

// The kind of the largest part: the rest of a program follows from it.
std::string Enumerator::kind_of(const Draft& draft) {
  const auto size = [](const Part& part) {
    std::size_t nodes = 0;
    for (const KernelNode& node : part.choice->graph.nodes()) nodes += node.block ? node.block->nodes.size() : 1;
    return nodes;
  };
  const auto largest = std::max_element(draft.parts.begin(), draft.parts.end(),
                                        [&](const Part& a, const Part& b) { return size(a) < size(b); });
  return largest->choice->kind + (draft.parts.size() > 1 ? " among others" : "");
}

// Best first; one of each kind ahead of the rest.
std::vector<const Enumerator::Draft*> Enumerator::ordered() const {
  std::vector<const Draft*> drafts, first, rest;
  for (const Draft& draft : drafts_) drafts.push_back(&draft);
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft* a, const Draft* b) {
    return std::pair(a->unsafe, a->seconds) < std::pair(b->unsafe, b->seconds);
  });
  std::set<std::pair<int, std::string>> kinds;
  for (const Draft* draft : drafts) (kinds.emplace(draft->unsafe, draft->kind).second ? first : rest).push_back(draft);
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// A program that keeps float32 between its kernels: its outputs must still have their types, its tiles fit.
bool Enumerator::fits_widened(const Draft& draft, Reason* reason, FoundProgram* program) const {
  const auto none = [](const Part& part) { return std::count(part.wide.begin(), part.wide.end(), true) == 0; };
  if (std::all_of(draft.parts.begin(), draft.parts.end(), none)) return true;
  const std::vector<int> outputs = program->graph.outputs(), expected = draft.rewritten->graph.outputs();
  for (std::size_t at = 0; at < outputs.size(); ++at) {
    if (program->graph.spec(outputs[at]).type == draft.rewritten->graph.spec(expected[at]).type) continue;
    *reason = Reason::kRounded;
    return false;
  }
  if (const auto too_large = misfit(program->graph, device_)) {
    *reason = *too_large;
    return false;
  }
  program->seconds = seconds(program->graph, device_);
  return true;
}

// Parts may wait for each other in any order, but not in a ring.
std::optional<FoundProgram> Enumerator::assemble(const Draft& draft, Reason* reason) const {
  *reason = Reason::kCycle;
  const KernelGraph& from = draft.rewritten->graph;
  FoundProgram program = {{}, draft.seconds, draft.unsafe, true, false, draft.kind, {}};
  std::vector<int> made(from.tensors().size(), -1);
  for (const int input : from.inputs()) {
    if (!program.graph.add_input(from.spec(input), &made[static_cast<std::size_t>(input)], from.tensor(input).name)
             .ok())
      return std::nullopt;
  }
  std::vector<const Part*> left;
  for (const Part& part : draft.parts) left.push_back(&part);
  while (!left.empty()) {
    const auto ready = std::find_if(left.begin(), left.end(), [&](const Part* part) {
      return std::all_of(part->inputs.begin(), part->inputs.end(),
                         [&](int t) { return made[static_cast<std::size_t>(t)] >= 0; });
    });
    if (ready == left.end()) return std::nullopt;
    std::vector<int> inputs;
    for (const int input : (*ready)->inputs) inputs.push_back(made[static_cast<std::size_t>(input)]);
    std::vector<std::string> names;
    for (const int output : (*ready)->outputs) names.push_back(from.tensor(output).name);
    const std::vector<int> results = splice((*ready)->choice->graph, inputs, names, (*ready)->wide, &program.graph);
    for (std::size_t at = 0; at < results.size(); ++at)
      made[static_cast<std::size_t>((*ready)->outputs[at])] = results[at];
    if (results.empty()) return std::nullopt;
    left.erase(ready);
  }
  for (const int output : from.outputs()) {
    if (!program.graph.mark_output(made[static_cast<std::size_t>(output)]).ok()) return std::nullopt;
  }
  for (const std::string_view rule : draft.rewritten->rules) program.rules.emplace_back(rule);
  return fits_widened(draft, reason, &program) ? std::optional(std::move(program)) : std::nullopt;
}

std::vector<FoundProgram> Enumerator::take(std::size_t most) {
  std::vector<FoundProgram> programs;
  std::set<Digest> known;
  const std::vector<const Draft*> drafts = ordered();
  for (const Draft* draft : drafts) {
    if (programs.size() == most) {
      report_.programs.prune(Reason::kSlower);
      continue;
    }
    Reason reason = Reason::kCycle;
    std::optional<FoundProgram> program = assemble(*draft, &reason);
    if (!program) {
      report_.programs.prune(reason);
    } else if (!known.insert(canonical(program->graph).digest).second) {
      report_.programs.prune(Reason::kDuplicate);
    } else {
      report_.programs.keep();
      programs.push_back(std::move(*program));
    }
  }
  std::stable_sort(programs.begin(), programs.end(), [](const FoundProgram& a, const FoundProgram& b) {
    return std::pair(a.unsafe, a.seconds) < std::pair(b.unsafe, b.seconds);
  });
  return programs;
}

}  // namespace gqa

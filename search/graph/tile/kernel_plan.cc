// kernel_plan.cc: see kernel_plan.h. A program is cut into parts, each one launch: attention on a family, or one
// operator; a part has choices, programs are put together from them.
#include "search/graph/tile/kernel_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "search/families/resources.h"
#include "search/families/space.h"
#include "search/graph/attention/retile.h"
#include "search/graph/ir/canonical.h"
#include "search/graph/prove/equivalence.h"
#include "search/graph/tile/tile_plan.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::uint64_t kProofSeed = 1;

// Tensors of the program and, by the same place, of a part.
struct Part {
  KernelGraph graph;
  std::vector<int> inputs, outputs;
};

const KernelNode& node_at(const KernelGraph& graph, std::size_t at) { return graph.nodes()[at]; }

// Copies node after node into another graph; tensors[i] is what tensor i became.
Status copy(const KernelGraph& from, const KernelNode& node, std::vector<int>* tensors, KernelGraph* to) {
  std::vector<int> inputs, results(1, -1);
  for (const int input : node.inputs) inputs.push_back((*tensors)[static_cast<std::size_t>(input)]);
  Status status;
  if (node.block) {
    BlockGraph block = *node.block;
    for (BlockStore& store : block.stores) {
      if (to->find(store.name) >= 0) store.name.clear();
    }
    status = to->add_custom(std::move(inputs), std::move(block), &results);
  } else {
    const std::string& name = from.tensor(node.outputs[0]).name;
    status = to->add(node.op, std::move(inputs), node.attributes, &results[0], to->find(name) < 0 ? name : "");
  }
  for (std::size_t at = 0; status.ok() && at < results.size(); ++at)
    (*tensors)[static_cast<std::size_t>(node.outputs[at])] = results[at];
  return status;
}

// Whoever reads a tensor outside nodes [first, last), or takes it as output of the program.
bool leaves(const KernelGraph& program, int tensor, std::size_t first, std::size_t last) {
  const std::vector<int> outputs = program.outputs();
  if (std::count(outputs.begin(), outputs.end(), tensor) > 0) return true;
  for (std::size_t at = 0; at < program.nodes().size(); ++at) {
    const std::vector<int>& inputs = node_at(program, at).inputs;
    if ((at < first || at >= last) && std::count(inputs.begin(), inputs.end(), tensor) > 0) return true;
  }
  return false;
}

// Nodes first .. last of the program as a graph of their own.
Status cut(const KernelGraph& program, std::size_t first, std::size_t last, Part* part) {
  std::vector<int> tensors(program.tensors().size(), -1);
  Status status;
  for (std::size_t at = first; at < last && status.ok(); ++at) {
    const KernelNode& node = node_at(program, at);
    for (const int input : node.inputs) {
      int& made = tensors[static_cast<std::size_t>(input)];
      if (made >= 0 || !status.ok()) continue;
      part->inputs.push_back(input);
      status = part->graph.add_input(program.spec(input), &made, program.tensor(input).name);
    }
    if (status.ok()) status = copy(program, node, &tensors, &part->graph);
    for (const int output : node.outputs) {
      if (leaves(program, output, first, last)) part->outputs.push_back(output);
    }
  }
  for (std::size_t at = 0; at < part->outputs.size() && status.ok(); ++at)
    status = part->graph.mark_output(tensors[static_cast<std::size_t>(part->outputs[at])]);
  return status;
}

bool is_custom(const KernelGraph& program, std::size_t at) {
  return at < program.nodes().size() && node_at(program, at).block != nullptr;
}

// Attention that begins at node `first`: one kernel, or two; *last is the node after it.
bool cut_attention(const KernelGraph& program, std::size_t first, std::size_t* last, Part* part) {
  for (std::size_t count = 1; count <= 2 && is_custom(program, first + count - 1); ++count) {
    Part found;
    if (!cut(program, first, first + count, &found).ok() || !attention_form(found.graph)) continue;
    *part = std::move(found);
    *last = first + count;
    return true;
  }
  return false;
}

Status plan_error(const KernelNode& node, const std::string& what) {
  return Status(Code::kOption, "thread plan " + quote(to_text(node.block->threads)) + ": " + what);
}

// A kernel of a family runs what the block graph says only if that has the candidate's tiles.
Status plan_family(const KernelGraph& program, std::size_t first, std::size_t* last, PlannedKernel* kernel) {
  const KernelNode& node = node_at(program, first);
  if (!node.block->threads.candidate) {
    Candidate named;  // what is wrong with the text
    return plan_error(node, parse(to_text(node.block->threads), &named).message());
  }
  const Candidate& candidate = *node.block->threads.candidate;
  Part part;
  if (!cut_attention(program, first, last, &part))
    return plan_error(node, "on operators that are no attention a family runs: expected 'tile ...'");
  const auto retiled = retile(part.graph, candidate);
  if (!retiled || !same_graph(*retiled, part.graph))
    return plan_error(node, "on a block graph of other tiles: expected that of retile()");
  kernel->family = FamilyKernel{*attention_form(part.graph), candidate};
  kernel->graph = std::move(part.graph);
  kernel->inputs = std::move(part.inputs);
  kernel->outputs = std::move(part.outputs);
  return {};
}

Status plan_tile(const KernelGraph& program, std::size_t at, PlannedKernel* kernel) {
  Part part;
  Status status = cut(program, at, at + 1, &part);
  kernel->graph = std::move(part.graph);
  kernel->inputs = std::move(part.inputs);
  kernel->outputs = std::move(part.outputs);
  return status;
}

bool is_family(const KernelNode& node) {
  return node.block && !node.block->threads.family.empty() && node.block->threads.family != kTileFamily;
}

// Ways to run a part of the program, best first: graphs with thread plans, of the part's inputs and outputs.
struct Choices {
  Part part;
  std::vector<KernelGraph> graphs;
};

KernelGraph with_plan(const KernelGraph& graph, const ThreadPlan& plan) {
  KernelGraph made;
  std::vector<int> tensors(graph.tensors().size(), -1);
  for (const int input : graph.inputs()) {
    Status status =
        made.add_input(graph.spec(input), &tensors[static_cast<std::size_t>(input)], graph.tensor(input).name);
    (void)status;  // a copy of what is well formed
  }
  KernelNode node = graph.nodes()[0];
  auto block = std::make_shared<BlockGraph>(*node.block);
  block->threads = plan;
  node.block = std::move(block);
  Status status = copy(graph, node, &tensors, &made);
  for (const int output : graph.marked_outputs()) {
    if (status.ok()) status = made.mark_output(tensors[static_cast<std::size_t>(output)]);
  }
  return made;
}

Choices tile_choices(const KernelGraph& program, std::size_t at, const DeviceSpec& device) {
  Choices choices;
  if (!cut(program, at, at + 1, &choices.part).ok()) return choices;
  const KernelGraph& graph = choices.part.graph;
  if (!graph.nodes()[0].block) {
    choices.graphs.push_back(graph);
    return choices;
  }
  for (const ThreadPlan& plan : tile_plans(graph, graph.nodes()[0], device))
    choices.graphs.push_back(with_plan(graph, plan));
  return choices;
}

// The most promising of what a program can run on (a split one on kernels that split, any other on those that do not),
// with the best of each family among them: where one fails on a device, another may not.
std::vector<Candidate> promising(const Problem& problem, bool split, const DeviceSpec& device, std::size_t most) {
  std::vector<Candidate> all;
  for (const Ranked& ranked : enumerate(problem, device).ranked) {
    if (split == (shape_of(ranked.candidate).splits > 1)) all.push_back(ranked.candidate);
  }
  std::set<std::string_view> seen;
  std::vector<std::size_t> chosen, others;
  for (std::size_t at = 0; at < all.size(); ++at) (seen.insert(name(all[at])).second ? chosen : others).push_back(at);
  chosen.insert(chosen.end(), others.begin(), others.end());
  chosen.resize(std::min(chosen.size(), most));
  std::sort(chosen.begin(), chosen.end());
  std::vector<Candidate> found;
  found.reserve(chosen.size());
  for (const std::size_t at : chosen) found.push_back(all[at]);
  return found;
}

std::vector<KernelGraph> family_graphs(const KernelGraph& attention, const DeviceSpec& device, std::size_t most) {
  std::vector<KernelGraph> found;
  const auto form = attention_form(attention);
  const auto plain = plain_attention(attention);  // what proofs are quickest against
  if (!plain || !prove_equal(attention, *plain, kProofSeed, nullptr).ok()) return {};
  std::map<std::array<std::int32_t, 4>, bool> proved;  // by what of a candidate is in its block graph
  for (const Candidate& c : promising(form->problem, attention.nodes().size() == 2, device, most)) {
    auto graph = retile(attention, c);
    if (!graph || attention_form(*graph) != form) continue;
    const CandidateShape shape = shape_of(c);
    const auto [equal, fresh] = proved.emplace(std::array{shape.rows, shape.keys, shape.pack, shape.splits}, false);
    if (fresh) equal->second = prove_equal(*plain, *graph, kProofSeed, nullptr).ok();
    if (equal->second) found.push_back(std::move(*graph));
  }
  return found;
}

std::vector<Choices> family_choices(const KernelGraph& program, const DeviceSpec& device, std::size_t most) {
  std::vector<Choices> found;
  bool any = false;
  for (std::size_t at = 0; at < program.nodes().size();) {
    Choices choices;
    std::size_t last = at + 1;
    if (cut_attention(program, at, &last, &choices.part))
      choices.graphs = family_graphs(choices.part.graph, device, most);
    any = any || !choices.graphs.empty();
    if (choices.graphs.empty()) {
      last = at + 1;
      choices = tile_choices(program, at, device);
    }
    found.push_back(std::move(choices));
    at = last;
  }
  return any ? found : std::vector<Choices>();
}

// The program with choice picks[i] of part i; nothing where tensors do not fit together.
std::optional<KernelGraph> assemble(const KernelGraph& program, const std::vector<Choices>& parts,
                                    const std::vector<std::size_t>& picks) {
  KernelGraph made;
  std::vector<int> tensors(program.tensors().size(), -1);
  Status status;
  for (const int input : program.inputs()) {
    if (status.ok())
      status =
          made.add_input(program.spec(input), &tensors[static_cast<std::size_t>(input)], program.tensor(input).name);
  }
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const Part& part = parts[at].part;
    const KernelGraph& graph = parts[at].graphs[picks[at]];
    std::vector<int> inside(graph.tensors().size(), -1);
    for (std::size_t each = 0; each < part.inputs.size(); ++each)
      inside[static_cast<std::size_t>(graph.inputs()[each])] = tensors[static_cast<std::size_t>(part.inputs[each])];
    for (const KernelNode& node : graph.nodes()) {
      if (status.ok()) status = copy(graph, node, &inside, &made);
    }
    const std::vector<int> outputs = graph.outputs();
    for (std::size_t each = 0; each < part.outputs.size(); ++each)
      tensors[static_cast<std::size_t>(part.outputs[each])] = inside[static_cast<std::size_t>(outputs[each])];
  }
  for (const int output : program.outputs()) {
    if (status.ok()) status = made.mark_output(tensors[static_cast<std::size_t>(output)]);
  }
  return status.ok() ? std::optional(made) : std::nullopt;
}

// The best choice of every part, then one part after another by its next best.
void add_programs(const KernelGraph& program, const std::vector<Choices>& parts, std::size_t most,
                  std::vector<KernelGraph>* found) {
  std::size_t deepest = 0;
  for (const Choices& choices : parts) {
    if (choices.graphs.empty()) return;
    deepest = std::max(deepest, choices.graphs.size());
  }
  const auto add = [&](const std::vector<std::size_t>& picks) {
    if (found->size() >= most) return;
    if (auto made = assemble(program, parts, picks)) found->push_back(std::move(*made));
  };
  std::vector<std::size_t> picks(parts.size(), 0);
  if (!parts.empty()) add(picks);
  for (std::size_t rank = 1; rank < deepest; ++rank) {
    for (std::size_t at = 0; at < parts.size(); ++at) {
      if (rank >= parts[at].graphs.size()) continue;
      picks[at] = rank;
      add(picks);
      picks[at] = 0;
    }
  }
}

}  // namespace

Status plan_kernels(const KernelGraph& program, KernelPlan* plan) {
  KernelPlan made;
  made.program = program;
  for (std::size_t at = 0; at < program.nodes().size();) {
    const KernelNode& node = node_at(program, at);
    if (node.block && node.block->threads.family.empty())
      return Status(Code::kOption, "a custom operator without a thread plan: expected one of thread_plans()");
    std::size_t last = at + 1;
    PlannedKernel kernel;
    Status status = is_family(node) ? plan_family(program, at, &last, &kernel) : plan_tile(program, at, &kernel);
    if (!status.ok()) return status;
    made.kernels.push_back(std::move(kernel));
    at = last;
  }
  *plan = std::move(made);
  return {};
}

std::vector<KernelGraph> thread_plans(const KernelGraph& program, const DeviceSpec& device, std::size_t most) {
  std::vector<Choices> tiles;
  for (std::size_t at = 0; at < program.nodes().size(); ++at) tiles.push_back(tile_choices(program, at, device));
  std::vector<KernelGraph> found, tiled;
  add_programs(program, tiles, most, &tiled);
  if (device.kind == DeviceKind::kCuda) {
    // Tile kernels always have a place, a quarter of all where they can fill it.
    const std::size_t kept = std::min(tiled.size(), std::max<std::size_t>(1, most / 4));
    if (most > kept) add_programs(program, family_choices(program, device, most - kept), most - kept, &found);
  }
  for (KernelGraph& each : tiled) {
    if (found.size() < most) found.push_back(std::move(each));
  }
  return found;
}

}  // namespace gqa

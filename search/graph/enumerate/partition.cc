// partition.cc: see partition.h.
#include "search/graph/enumerate/partition.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "search/graph/enumerate/section.h"
#include "search/graph/ir/graph_editor.h"

namespace gqa {
namespace {

constexpr std::size_t kMostUnits = 64;

Group bit(std::size_t unit) { return Group{1} << unit; }

bool is_cheap(Op op) {
  const OpClass kind = info(op).kind;
  return kind == OpClass::kElementwise || kind == OpClass::kMask || kind == OpClass::kView;
}

// Whether the node and its only reader are never better apart.
bool stay_together(const KernelNode& node, const KernelNode& reader) {
  if (!can_fuse(node.op) || !can_fuse(reader.op)) return false;
  if (is_cheap(node.op)) return info(reader.op).kind != OpClass::kContraction;
  return is_cheap(reader.op) && reader.inputs.size() == 1;  // an epilogue
}

// Which unit each node is in: representatives first, numbers in order of the last node.
class Gluer {
 public:
  explicit Gluer(const KernelGraph& graph) : parent_(graph.nodes().size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    const std::vector<std::vector<int>> reads = readers(graph);
    const std::vector<int> outputs = graph.outputs();
    for (std::size_t at = 0; at < parent_.size(); ++at) {
      const int result = graph.nodes()[at].outputs[0];
      const std::set<int> by(reads[static_cast<std::size_t>(result)].begin(),
                             reads[static_cast<std::size_t>(result)].end());
      if (by.size() != 1 || std::count(outputs.begin(), outputs.end(), result) > 0) continue;
      if (stay_together(graph.nodes()[at], graph.nodes()[static_cast<std::size_t>(*by.begin())]))
        parent_[at] = static_cast<std::size_t>(*by.begin());  // its last node stands for a unit
    }
  }

  std::size_t root(std::size_t node) const { return parent_[node] == node ? node : root(parent_[node]); }

  std::vector<std::vector<int>> units() const {
    std::vector<std::vector<int>> found;
    std::vector<std::size_t> number(parent_.size());
    for (std::size_t at = 0; at < parent_.size(); ++at) {
      if (root(at) != at) continue;
      number[at] = std::min(found.size(), kMostUnits - 1);
      if (number[at] == found.size()) found.emplace_back();
    }
    for (std::size_t at = 0; at < parent_.size(); ++at) found[number[root(at)]].push_back(static_cast<int>(at));
    return found;
  }

 private:
  std::vector<std::size_t> parent_;
};

bool convex(const Units& units, Group group) {
  Group needed = 0;  // by the group, directly or not
  for (std::size_t at = 0; at < units.nodes.size(); ++at) needed |= group & bit(at) ? units.before[at] : 0;
  for (std::size_t at = 0; at < units.nodes.size(); ++at) {
    if ((needed & ~group & bit(at)) && (units.before[at] & group)) return false;
  }
  return true;
}

}  // namespace

Units units_of(const KernelGraph& graph) {
  Units units;
  units.nodes = Gluer(graph).units();
  const std::size_t count = units.nodes.size();
  units.before.resize(count);
  units.beside.resize(count);
  std::vector<std::set<int>> tensors(count);
  std::vector<int> unit_of(graph.nodes().size());
  for (std::size_t at = 0; at < count; ++at) {
    for (const int node : units.nodes[at]) unit_of[static_cast<std::size_t>(node)] = static_cast<int>(at);
  }
  for (std::size_t at = 0; at < count; ++at) {
    for (const int node : units.nodes[at]) {
      const KernelNode& made = graph.nodes()[static_cast<std::size_t>(node)];
      tensors[at].insert(made.outputs.begin(), made.outputs.end());
      tensors[at].insert(made.inputs.begin(), made.inputs.end());
      for (const int input : made.inputs) {
        const int maker = graph.tensor(input).node;
        const auto from = maker < 0 ? at : static_cast<std::size_t>(unit_of[static_cast<std::size_t>(maker)]);
        if (from != at) units.before[at] |= bit(from);
      }
    }
  }
  for (std::size_t round = 0; round < count; ++round) {
    for (Group& before : units.before) {
      for (std::size_t other = 0; other < count; ++other) before |= before & bit(other) ? units.before[other] : 0;
    }
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      const bool meet =
          std::any_of(tensors[a].begin(), tensors[a].end(), [&](int t) { return tensors[b].count(t) > 0; });
      if (a != b && meet) units.beside[a] |= bit(b);
    }
  }
  return units;
}

std::vector<Group> groups_of(const Units& units, std::size_t most) {
  std::vector<Group> connected, found;
  std::set<Group> known;
  for (std::size_t at = 0; at < units.nodes.size(); ++at) connected.push_back(bit(at)), known.insert(bit(at));
  for (std::size_t next = 0; next < connected.size() && known.size() < 4 * most; ++next) {
    Group around = 0;
    for (std::size_t at = 0; at < units.nodes.size(); ++at) around |= connected[next] & bit(at) ? units.beside[at] : 0;
    for (Group left = around & ~connected[next]; left != 0; left &= left - 1) {
      const Group grown = connected[next] | (left & -left);
      if (known.insert(grown).second) connected.push_back(grown);
    }
  }
  for (const Group group : connected) {
    if (found.size() < most && convex(units, group)) found.push_back(group);
  }
  const Group all = units.nodes.empty() ? 0 : ~Group{0} >> (64 - units.nodes.size());
  if (known.insert(all).second) found.push_back(all);
  return found;
}

std::vector<int> nodes_of(const Units& units, Group group) {
  std::vector<int> nodes;
  for (std::size_t at = 0; at < units.nodes.size(); ++at) {
    if (group & bit(at)) nodes.insert(nodes.end(), units.nodes[at].begin(), units.nodes[at].end());
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

KernelGraph extract(const KernelGraph& graph, const std::vector<int>& nodes, std::vector<int>* inputs,
                    std::vector<int>* outputs) {
  const std::set<int> inside(nodes.begin(), nodes.end());
  const std::vector<int> results = graph.outputs();
  const std::vector<std::vector<int>> reads = readers(graph);
  KernelGraph part;
  std::vector<int> made(graph.tensors().size(), -1);
  Status status;
  for (const int at : nodes) {
    for (const int input : graph.nodes()[static_cast<std::size_t>(at)].inputs) {
      int& copy = made[static_cast<std::size_t>(input)];
      if (copy >= 0 || inside.count(graph.tensor(input).node)) continue;
      inputs->push_back(input);
      if (status.ok()) status = part.add_input(graph.spec(input), &copy, graph.tensor(input).name);
    }
  }
  for (const int at : nodes) {
    const KernelNode& node = graph.nodes()[static_cast<std::size_t>(at)];
    std::vector<int> operands;
    for (const int input : node.inputs) operands.push_back(made[static_cast<std::size_t>(input)]);
    const int result = node.outputs[0];
    if (status.ok())
      status = part.add(node.op, operands, node.attributes, &made[static_cast<std::size_t>(result)],
                        graph.tensor(result).name);
    const std::vector<int>& by = reads[static_cast<std::size_t>(result)];
    const bool leaves = std::any_of(by.begin(), by.end(), [&](int reader) { return !inside.count(reader); });
    if (!leaves && std::count(results.begin(), results.end(), result) == 0) continue;
    outputs->push_back(result);
    if (status.ok()) status = part.mark_output(made[static_cast<std::size_t>(result)]);
  }
  return part;
}

}  // namespace gqa

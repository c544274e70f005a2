// rewrite.h: all the graphs that a user's graph is equal to by the laws of algebra, up to a bound.
// Owns: Rule and the table of rules, saturate().
// Never: cuts anything into tiles (enumerate.h does), trusts itself: every program is proved equal afterwards.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/graph/ir/graph_editor.h"
#include "search/graph/rewrite/abstract.h"
#include "search/graph/search_report.h"
#include "search/graph/workers.h"

namespace gqa {

// A use: operand `operand` of a node (0 where it has none). A rule may look at what made the operand.
struct Site {
  const KernelGraph& graph;
  const KernelNode& node;
  std::size_t operand = 0;

  int tensor(std::size_t at) const { return node.inputs[at]; }
  const Dims& dims(int tensor_id) const { return graph.spec(tensor_id).dims; }
  const KernelNode* maker(int tensor_id) const { return graph.maker(tensor_id); }
};

struct Rule {
  std::string_view name;
  bool always;  // opens a name; whoever still has it is not looked at further
  // What stands for the node's result, in the editor's graph; -1: does not apply.
  int (*apply)(const Site& site, GraphEditor* editor);
};

const std::vector<Rule>& rules();
inline constexpr std::string_view kSubtractMaximum = "subtract_maximum";

struct Rewritten {
  KernelGraph graph;
  std::vector<std::string_view> rules;  // that led here
};

// The user's graph first, then the graph with its names opened, then that with the maxima of all exponentials taken off
// that have none and need it, then what the rules make of them, breadth first, at most `most` graphs in all, fewer once
// told to stop. Counts into report->rewrites and report->rules.
std::vector<Rewritten> saturate(const KernelGraph& graph, std::size_t most, AbstractSpace* abstract,
                                SearchReport* report, const Stop& stop = {});

}  // namespace gqa

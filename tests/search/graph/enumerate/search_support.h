// search_support.h: what tests of the search ask of a program: which of its tiles are cut how, which operators it has.
// Owns: predicates over block graphs and a search in one line.
// Never: asserts more than that a search returned.
// Threads: pure functions.
#pragma once

#include <algorithm>

#include "search/graph/enumerate/superoptimize.h"
#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {

inline DeviceSpec hopper() { return *DeviceSpec::for_arch("sm_90a"); }

inline SearchResult search(const KernelGraph& graph, const std::string& config = "", std::size_t most = 24) {
  SearchOptions options;
  options.config = config;
  options.most_programs = most;
  SearchResult result;
  const Status status = superoptimize(graph, hopper(), options, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

inline bool has(const BlockGraph& block, Op op) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const BlockNode& node) { return node.op == op; });
}

inline std::int64_t count(const BlockGraph& block, Op op) {
  return std::count_if(block.nodes.begin(), block.nodes.end(), [&](const BlockNode& node) { return node.op == op; });
}

// The graph input of that name as a kernel sees it: axes of its tile; empty where it does not load it.
inline Axes tile_of(const KernelGraph& graph, const KernelNode& node, std::string_view input) {
  for (const BlockNode& step : node.block->nodes) {
    if (step.op == Op::kLoad && graph.tensor(node.inputs[static_cast<std::size_t>(step.operand)]).name == input)
      return step.axes;
  }
  return {};
}

inline bool loops(const Axes& axes, std::size_t dim) { return axes.size() > dim && axes[dim].loop; }
inline bool on_grid(const Axes& axes, std::size_t dim) { return axes.size() > dim && axes[dim].grid >= 0; }

inline bool all_custom(const KernelGraph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const KernelNode& node) { return node.block != nullptr; });
}

// One kernel, a loop along the keys, a running maximum that both the sum and the rows follow.
inline bool is_flash(const KernelGraph& graph, std::size_t k_keys, std::size_t v_keys) {
  if (graph.nodes().size() != 1 || !all_custom(graph)) return false;
  const KernelNode& node = graph.nodes()[0];
  const Axes k = tile_of(graph, node, "k"), v = tile_of(graph, node, "v");
  return loops(k, k_keys) && loops(v, v_keys) && !on_grid(k, k_keys) && has(*node.block, Op::kRunningMax) &&
         count(*node.block, Op::kAccumulateRescaled) == 2;
}

// Two kernels: the keys on the grid and in the loop, partial results of float32 under a maximum each; then the merge.
inline bool is_flash_decoding(const KernelGraph& graph, std::size_t k_keys, std::size_t v_keys) {
  if (graph.nodes().size() != 2 || !all_custom(graph)) return false;
  const KernelNode &parts = graph.nodes()[0], &merge = graph.nodes()[1];
  const Axes k = tile_of(graph, parts, "k"), v = tile_of(graph, parts, "v");
  return loops(k, k_keys) && on_grid(k, k_keys) && on_grid(v, v_keys) && has(*parts.block, Op::kRunningMax) &&
         parts.outputs.size() == 3 && has(*merge.block, Op::kExp) && merge.block->steps == 1;
}

template <typename Predicate>
const FoundProgram* find_program(const SearchResult& result, Predicate predicate) {
  for (const RankedProgram& ranked : result.programs) {
    if (predicate(ranked.program.graph)) return &ranked.program;
  }
  return nullptr;
}

inline std::int64_t pruned(const StageCount& stage) {
  std::int64_t total = 0;
  for (const std::int64_t count : stage.pruned) total += count;
  return total;
}

}  // namespace gqa

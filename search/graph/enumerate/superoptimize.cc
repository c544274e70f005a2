// superoptimize.cc: see superoptimize.h.
#include "search/graph/enumerate/superoptimize.h"

#include <algorithm>

#include "search/graph/ir/canonical.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr const char* kUnfused = "unfused";

Status nothing_fits(const DeviceSpec& device, const SearchReport& report) {
  return Status(Code::kNoCandidate, "no program of this graph fits " + device.identity() +
                                        ": expected smaller dimensions, or a device with more shared memory\n" +
                                        to_text(report));
}

// The user's graph as it stands, but for what no output needs: each operator a kernel.
void add_unfused(const KernelGraph& graph, const DeviceSpec& device, SearchReport* report,
                 std::vector<FoundProgram>* programs) {
  if (const auto reason = misfit(graph, device)) return report->programs.prune(*reason);
  const bool known = std::any_of(programs->begin(), programs->end(),
                                 [&](const FoundProgram& program) { return same_graph(program.graph, graph); });
  if (known) return report->programs.prune(Reason::kDuplicate);
  report->programs.keep();
  programs->push_back({graph, seconds(graph, device), unsafe_exponents(graph), true, true, kUnfused, {}});
}

bool before(const FoundProgram& a, const FoundProgram& b) {
  return std::pair(a.unsafe, a.seconds) < std::pair(b.unsafe, b.seconds);
}

// A graph is equal to itself, even where it is too strange to be tried. `live`: the graph without what no output needs.
bool proved(const KernelGraph& graph, const KernelGraph& live, const FoundProgram& program, std::uint64_t seed,
            EquivalenceReport* proof, const Stop& stop) {
  if (prove_equal(graph, program.graph, seed, proof, stop).ok()) return true;
  return proof->equal = same_graph(live, program.graph);
}

std::string step_text(const BlockGraph& block) {
  std::string text = "grid ";
  for (std::size_t at = 0; at < block.grid.size(); ++at) text += (at == 0 ? "" : "x") + std::to_string(block.grid[at]);
  if (block.grid.empty()) text += "1";
  if (block.steps > 1) text += ", " + std::to_string(block.steps) + " steps";
  const auto running = [](const BlockNode& node) { return node.op == Op::kRunningMax; };
  if (std::any_of(block.nodes.begin(), block.nodes.end(), running)) text += ", running maximum";
  return text;
}

}  // namespace

Status superoptimize(const KernelGraph& graph, const DeviceSpec& device, const SearchOptions& options,
                     SearchResult* result) {
  const SearchConfig* config = find_config(options.config);
  if (!config) return text_error("config " + quote(options.config) + ": expected none or " + config_names());
  if (graph.nodes().empty()) return text_error("a graph without an operator: expected at least one");
  const std::optional<KernelGraph> live = GraphEditor(graph).finish();  // without what no output needs
  if (!live) return Status(Code::kInternal, "a graph that cannot be copied: expected a well-formed one");
  *result = {};
  SearchReport& report = result->report;
  const auto tell = [&](SearchStep step) {
    if (options.progress) options.progress(step, &report);
  };
  const auto stop_at = [&](SearchStep step) -> Stop {
    if (!options.stop) return {};
    return [&options, step] { return options.stop(step); };
  };
  const Stop enough = stop_at(SearchStep::kEnumerated), no_proof = stop_at(SearchStep::kProved);
  AbstractSpace abstract;
  const std::vector<Rewritten> rewritten =
      saturate(*live, config->most_graphs, &abstract, &report, stop_at(SearchStep::kRewritten));
  tell(SearchStep::kRewritten);
  Enumerator enumerator(*config, device, &abstract, &report, enough);
  for (const Rewritten& each : rewritten) {
    if (&each == rewritten.data() || !enough || !enough()) enumerator.add(each);
  }
  std::vector<FoundProgram> programs = enumerator.take(std::max<std::size_t>(1, options.most_programs) - 1);
  add_unfused(*live, device, &report, &programs);
  std::stable_sort(programs.begin(), programs.end(), before);
  tell(SearchStep::kEnumerated);
  for (FoundProgram& program : programs) {
    EquivalenceReport proof;
    if (!proved(graph, *live, program, options.seed, &proof, no_proof)) {
      report.programs.drop(Reason::kUnproved);
      report.exhausted = report.exhausted && !(no_proof && no_proof());
      continue;
    }
    ++report.proved;
    program.as_given = same_graph(*live, program.graph);
    program.safe = result->programs.empty() || program.unsafe == result->programs[0].program.unsafe;
    result->programs.push_back({std::move(program), std::move(proof)});
  }
  report.ranked = static_cast<std::int64_t>(result->programs.size());
  tell(SearchStep::kProved);
  return result->programs.empty() ? nothing_fits(device, report) : Status();
}

std::string describe(const KernelGraph& program) {
  std::string text =
      std::to_string(program.nodes().size()) + (program.nodes().size() == 1 ? " kernel: " : " kernels: ");
  for (std::size_t at = 0; at < program.nodes().size(); ++at) {
    const KernelNode& node = program.nodes()[at];
    text += (at == 0 ? "" : "; ") + (node.block ? step_text(*node.block) : std::string(name(node.op)));
  }
  return text;
}

std::string thread_text(const KernelGraph& program) {
  std::string text;
  for (const KernelNode& node : program.nodes()) {
    if (!text.empty()) text += "; ";
    text += node.block && !node.block->threads.family.empty() ? to_text(node.block->threads) : name(node.op);
  }
  return text;
}

}  // namespace gqa

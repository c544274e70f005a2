// contenders.cc: see contenders.h.
#include "runtime/workload/contenders.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "search/graph/enumerate/estimate.h"
#include "search/graph/ir/canonical.h"

namespace gqa {
namespace {

constexpr std::size_t kPlansEach = 32;  // thread plans asked for, a program
constexpr std::size_t kTileEvery = 4;

struct Planned {
  const FoundProgram* program;
  std::vector<KernelGraph> graphs;  // best first
};

std::optional<Contender> contender(const FoundProgram& program, const KernelGraph& graph, const DeviceSpec& device) {
  Contender made;
  if (!plan_kernels(graph, &made.plan).ok()) return std::nullopt;
  made.predicted_us = 1e6 * seconds(graph, device);
  made.safe = program.safe;
  made.rules = program.rules;
  made.family = std::any_of(made.plan.kernels.begin(), made.plan.kernels.end(),
                            [](const PlannedKernel& kernel) { return kernel.family.has_value(); });
  return made;
}

// The programs' plans in turn, none twice.
std::deque<Contender> in_turn(const std::vector<Planned>& planned, bool family, const DeviceSpec& device) {
  std::deque<Contender> found;
  std::set<Digest> met;
  std::vector<std::size_t> next(planned.size(), 0);
  for (bool more = true; more;) {
    more = false;
    for (std::size_t at = 0; at < planned.size(); ++at) {
      const std::vector<KernelGraph>& graphs = planned[at].graphs;
      for (bool taken = false; !taken && next[at] < graphs.size(); ++next[at]) {
        if (!met.insert(canonical(graphs[next[at]]).digest).second) continue;
        std::optional<Contender> made = contender(*planned[at].program, graphs[next[at]], device);
        taken = made && made->family == family;
        if (taken) found.push_back(std::move(*made));
      }
      more = more || next[at] < graphs.size();
    }
  }
  return found;
}

// The best program of each kind first, then the second of each: kinds differ more than sizes of one kind, and only the
// clock knows which is right.
void one_of_each_kind_first(std::vector<Planned>* planned) {
  std::map<std::string, int> seen;
  std::vector<std::pair<int, Planned>> turns;
  for (Planned& each : *planned) turns.emplace_back(seen[each.program->kind]++, std::move(each));
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t at = 0; at < turns.size(); ++at) (*planned)[at] = std::move(turns[at].second);
}

Contender take_first(std::deque<Contender>* queue) {
  Contender first = std::move(queue->front());
  queue->pop_front();
  return first;
}

}  // namespace

std::vector<Contender> contenders(const std::vector<RankedProgram>& programs, const TakesProgram& takes,
                                  const DeviceSpec& device, std::size_t most) {
  std::vector<Planned> planned;
  for (const RankedProgram& ranked : programs) {
    if (!takes(ranked.program)) continue;
    planned.push_back({&ranked.program, thread_plans(ranked.program.graph, device, kPlansEach)});
  }
  one_of_each_kind_first(&planned);
  std::deque<Contender> families = in_turn(planned, true, device), tiles = in_turn(planned, false, device);
  std::vector<Contender> all;
  while (all.size() < most && !(families.empty() && tiles.empty())) {
    const bool tile = families.empty() || (!tiles.empty() && all.size() % kTileEvery == kTileEvery - 1);
    all.push_back(take_first(tile ? &tiles : &families));
  }
  return all;
}

}  // namespace gqa

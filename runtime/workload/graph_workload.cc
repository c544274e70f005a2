// graph_workload.cc: see graph_workload.h.
#include "runtime/workload/graph_workload.h"

#include <memory>

#include "runtime/workload/contenders.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/search_evidence.h"
#include "search/graph/ir/graph_text.h"

namespace gqa {
namespace {

constexpr std::size_t kMostContenders = 64;  // looked at, a round
constexpr int kRounds = 3;                   // safe programs, the others, the user's graph as it stands
// Shares of the budget after which the search goes on with what it has.
constexpr double kRewriteShare = 0.1, kEnumerateShare = 0.2, kProveShare = 0.3;

double share_of(SearchStep step) {
  return step == SearchStep::kRewritten    ? kRewriteShare
         : step == SearchStep::kEnumerated ? kEnumerateShare
                                           : kProveShare;
}

SearchCounts counts_of(const SearchReport& report) {
  SearchCounts counts;
#define GQA_STAGE(field, text)                \
  counts.enumerated += report.field.explored; \
  counts.pruned += report.field.explored - report.field.kept;
  GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
  counts.proved = report.proved;
  return counts;
}

// Each kernel as a program of its own.
std::vector<Part> parts_of(const KernelPlan& plan, DeviceKind kind) {
  std::vector<Part> parts;
  for (const PlannedKernel& kernel : plan.kernels) {
    PlannedKernel alone = kernel;
    alone.inputs = kernel.graph.inputs();
    alone.outputs = kernel.graph.outputs();
    Part part{kernel.graph, {}};
    if (!program_of(KernelPlan{kernel.graph, {std::move(alone)}}, kind, &part.program).ok()) return {};
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

GraphWorkload::GraphWorkload(KernelGraph graph, const Digest& digest, std::string config, std::uint64_t seed)
    : reference_{std::move(graph)}, digest_(digest), config_(std::move(config)), seed_(seed) {}

std::string GraphWorkload::signature() const {
  return std::string(kGraphSignature) + to_text(digest_) + (config_.empty() ? "" : " config=" + config_);
}

Status GraphWorkload::search(const DeviceSpec& device, const Effort& effort,
                             const std::function<void(const SearchCounts&)>& told) {
  SearchOptions options;
  options.config = config_;
  options.seed = seed_;
  double enumerated = 0;
  options.progress = [&](SearchStep step, SearchReport* report) {
    if (step == SearchStep::kEnumerated) report->search_seconds = enumerated = effort.seconds();
    if (step == SearchStep::kProved) report->proof_seconds = effort.seconds() - enumerated;
    if (told) told(counts_of(*report));
  };
  options.stop = [&](SearchStep step) { return effort.cancelled() || effort.spent(share_of(step)); };
  Status status = superoptimize(graph(), device, options, &found_);
  return effort.cancelled() ? effort.check() : status;
}

Status GraphWorkload::options(int round, const DeviceSpec& device, const Effort& effort,
                              const std::function<void(const SearchCounts&)>& told, Options* options) {
  if (round == 0) {
    if (Status status = search(device, effort, told); !status.ok()) return status;
  }
  options->more = round + 1 < kRounds;
  options->counts = counts_of(found_.report);
  options->evidence = search_evidence(found_.report);
  options->report = "\n" + to_text(found_.report);
  const auto takes = [round](const FoundProgram& program) {
    return round == 0 ? program.safe : round == 1 ? !program.safe : program.as_given;
  };
  for (const Contender& contender : contenders(found_.programs, takes, device, kMostContenders)) {
    options->ranked.push_back(option(contender, device.kind, effort));
    if (!options->more) options->ranked.back().parts = parts_of(contender.plan, device.kind);
  }
  return {};
}

// What the thread level made of a program is held against the user's graph once more.
Option GraphWorkload::option(const Contender& contender, DeviceKind kind, const Effort& effort) const {
  Option made;
  const KernelGraph& program = contender.plan.program;
  made.name = describe(program) + " | " + thread_text(program);
  made.predicted_us = contender.predicted_us;
  made.safe = contender.safe;
  made.exact_first = true;
  made.notes = program_notes(contender);
  auto ready = std::make_shared<Program>();
  const Status status = program_of(contender.plan, kind, ready.get());
  for (const Source& source : ready->sources) made.kernels.push_back(source.text);
  made.make = [this, status, ready, graph = program, stop = effort.stop()](Program* given) -> Status {
    if (!status.ok()) return status;
    if (!proves(this->graph(), graph, seed_, stop))
      return {Code::kNoCandidate, "its thread plan does not compute the graph"};
    *given = *ready;
    return {};
  };
  return made;
}

Status GraphWorkload::program(const std::string& text, const DeviceSpec& device, Program* program) {
  KernelGraph cached;
  if (Status status = parse(text, &cached); !status.ok()) return status;
  if (!proves(graph(), cached, seed_)) return {Code::kInternal, "it does not compute the graph"};
  KernelPlan plan;
  if (Status status = plan_kernels(cached, &plan); !status.ok()) return status;
  return program_of(plan, device.kind, program);
}

}  // namespace gqa

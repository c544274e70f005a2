// precompile.cc: kernels for a device that is not here.
// Owns: the compile-only miss: a search for an architecture, the most promising options compiled, kept unmeasured.
// Never: loads, verifies or times; the first device to see the kernels does.
// Threads: blocks its caller; compiles on threads of its own. Progress is called from the calling thread only.
#include <algorithm>
#include <atomic>

#include "runtime/tuner/shortlist.h"
#include "runtime/tuner/tuner.h"

namespace gqa {
namespace {

Attempt attempt_of(const Option& option, const Made& made) {
  if (!made.status.ok()) return untried(option, "compile failed", made.status.message());
  if (made.binary.spills_heavily())
    return untried(option, "spilled", std::to_string(made.binary.spill_bytes) + " bytes of registers go to memory");
  return untried(option, made.from_store ? "in the cache already" : "compiled", "");
}

// Nothing is usable: the compiler's own failure where it is the same for all, else every first reason.
Status all_failed(const Workload& workload, const std::vector<Attempt>& attempts, const Status& first) {
  if (first.code() == Code::kNoCompiler) return first;
  return {Code::kNoCandidate, "no candidate for " + workload.name() + " compiled" + outcomes_text(attempts)};
}

struct Chosen {
  std::vector<std::size_t> options;  // of the ranked, one a kernel
  std::vector<Source> sources;
};

// Options of one kernel each: those of attention.
Chosen choose(const Options& options, std::size_t kernels) {
  std::vector<Program> programs(options.ranked.size());
  const auto usable = [&](std::size_t at) { return options.ranked[at].make(&programs[at]).ok(); };
  Chosen chosen;
  chosen.options = shortlist(options.ranked, kernels, kernels, usable).own;
  for (const std::size_t at : chosen.options) chosen.sources.push_back(programs[at].sources.front());
  return chosen;
}

}  // namespace

Status precompile(const Device& device, cache::Store& store, Workload& workload, const TunePolicy& policy,
                  const ProgressFn& progress, std::vector<Attempt>* attempts) {
  const Effort effort(policy.budget_seconds);
  Options options;
  if (Status status = workload.options(0, device.spec(), effort, {}, &options); !status.ok()) return status;
  const Chosen chosen = choose(options, static_cast<std::size_t>(std::max(1, policy.max_candidates)));
  Progress shown;
  shown.phase = TunePhase::kCompile;
  shown.enumerated = options.counts.enumerated;
  shown.pruned = options.counts.pruned;
  shown.selected = shown.kernels = static_cast<std::int64_t>(chosen.options.size());
  std::atomic<bool> first = true;  // at least one kernel is made, whatever the budget
  CompilePool compile_pool(device, store, policy.compile_threads);
  const auto batch = compile_pool.make(chosen.sources, [&] { return first.exchange(false) || !effort.spent(); });
  bool usable = false;
  Status first_failure;
  while (std::optional<Made> made = batch->next(effort)) {
    ++shown.compiled;
    shown.seconds = effort.seconds();
    shown.seconds_left = std::max(0.0, effort.left());
    if (progress) progress(shown);
    usable = usable || made->status.ok();
    if (!made->status.ok() && first_failure.ok()) first_failure = made->status;
    attempts->push_back(attempt_of(options.ranked[chosen.options[made->index]], *made));
  }
  const Source checker = device.checker();
  if (usable && !checker.text.empty()) {
    if (Made made = compile_pool.find_or_make(checker); !made.status.ok()) return made.status;
  }
  for (const Rejection& rejected : options.rejected) {
    Attempt& attempt = attempts->emplace_back();
    attempt.name = rejected.name;
    attempt.outcome = "pruned";
    attempt.detail = rejected.reason;
  }
  return usable ? Status() : all_failed(workload, *attempts, first_failure);
}

}  // namespace gqa

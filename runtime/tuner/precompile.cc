// precompile.cc: kernels for a device that is not here.
// Owns: the compile-only miss: enumerate for an architecture, compile the most promising, keep them unmeasured.
// Never: loads, verifies or times; the first device to see the kernels does.
// Threads: blocks its caller; compiles on threads of its own. Progress is called from the calling thread only.
#include <algorithm>
#include <chrono>

#include "runtime/tuner/tuner.h"
#include "runtime/tuner/workshop.h"
#include "runtime/workload/shortlist.h"

namespace gqa {
namespace {

using Clock = std::chrono::steady_clock;

Attempt attempt_of(const Ranked& ranked, const char* outcome, const std::string& detail) {
  Attempt attempt;
  attempt.candidate = ranked.candidate;
  attempt.predicted_us = ranked.predicted_us;
  attempt.outcome = outcome;
  attempt.detail = detail;
  return attempt;
}

Attempt attempt_of(const Ranked& ranked, const Made& made) {
  if (!made.status.ok()) return attempt_of(ranked, "compile failed", made.status.message());
  if (made.binary.spills_heavily()) {
    return attempt_of(ranked, "spilled", std::to_string(made.binary.spill_bytes) + " bytes of registers go to memory");
  }
  return attempt_of(ranked, made.from_store ? "in the cache already" : "compiled", "");
}

// Nothing is usable: the compiler's own failure where it is the same for all, else every first reason.
Status all_failed(const Problem& problem, const std::vector<Attempt>& attempts, const Status& first) {
  if (first.code() == Code::kNoCompiler) return first;
  std::string message = "no candidate for " + to_text(problem) + " compiled (" + std::to_string(attempts.size()) +
                        " candidates were pruned or tried)";
  if (!attempts.empty()) {
    message += "; first: " + to_text(attempts.front().candidate) + ": " + attempts.front().outcome + ": " +
               attempts.front().detail;
  }
  return {Code::kNoCandidate, message};
}

}  // namespace

Status precompile(const Device& device, cache::Store& store, const Problem& problem, const TunePolicy& policy,
                  const ProgressFn& progress, std::vector<Attempt>* attempts) {
  const Clock::time_point start = Clock::now();
  const auto seconds = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const Space space = enumerate(problem, device.spec());
  const int kernels = std::max(1, policy.max_candidates);
  const Shortlist list = shortlist(space.ranked, kernels, kernels);
  Progress shown;
  shown.phase = TunePhase::kCompile;
  shown.pruned = static_cast<int>(space.rejected.size());
  shown.enumerated = static_cast<int>(space.rejected.size() + space.ranked.size());
  shown.selected = static_cast<int>(list.kernels.size());
  std::vector<Recipe> recipes;
  for (const ShortlistedKernel& kernel : list.kernels)
    recipes.push_back(recipe_of(device, problem, kernel.candidates.front().candidate));

  bool first_start = true;  // at least one kernel is made, whatever the budget
  std::mutex mutex;
  Workshop workshop(device, store, std::move(recipes), policy.compile_threads, [&] {
    const std::lock_guard lock(mutex);
    return std::exchange(first_start, false) || seconds() < policy.budget_seconds;
  });
  bool usable = false;
  Status first_failure;
  while (std::optional<Made> made = workshop.next()) {
    ++shown.compiled;
    shown.seconds = seconds();
    shown.seconds_left = std::max(0.0, policy.budget_seconds - shown.seconds);
    if (progress) progress(shown);
    usable = usable || made->status.ok();
    if (!made->status.ok() && first_failure.ok()) first_failure = made->status;
    attempts->push_back(attempt_of(list.kernels[made->index].candidates.front(), *made));
  }
  for (const Rejected& rejected : space.rejected) {
    attempts->push_back(attempt_of({rejected.candidate, 0}, "pruned", rejected.reason));
  }
  return usable ? Status() : all_failed(problem, *attempts, first_failure);
}

}  // namespace gqa

// retune.cc: see retune.h.
#include "tools/cache/retune.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"
#include "runtime/workload/operation_workload.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

Problem problem_of(const cache::WinnerRow& row) {
  if (is_graph(row))
    throw Failure(
        "the winner " + short_key(row.id()) +
        " is a graph's: the cache has no graph to race; superoptimize it again in a process that has it, after "
        "gqa-cache forget " +
        short_key(row.id()));
  if (operation_of(row.key.signature))
    throw Failure("the winner " + short_key(row.id()) + " has no rival: one kernel " +
                  what_it_does(*operation_of(row.key.signature)) + " for all shapes");
  Problem problem;
  if (const Status status = parse(row.key.signature, &problem); !status.ok())
    throw Failure("the shape " + quote(row.key.signature) + " is of another version of gqa: " + status.message());
  return problem;
}

void require_this_device(const Device& device, const cache::WinnerRow& row) {
  const cache::WinnerKey here = winner_key(device, row.key.signature);
  if (here.device != row.key.device)
    throw Failure("the winner is of another device: of " + quote(row.key.device) + ", and this is " +
                  quote(here.device) + "; tune it where it is from, or warm its shape here");
  if (here.search != row.key.search)
    throw Failure("the winner is of another version of gqa (" + row.key.search +
                  ") and is not used any more; warm its shape");
}

bool raced(const cache::WinnerRow& race, const std::string& candidate) {
  if (race.candidate == candidate) return true;
  const Json losers = losers_of(race);
  return std::any_of(losers.begin(), losers.end(), [&candidate](const Json& attempt) {
    return text_of(attempt, "candidate") == candidate && number_of(attempt, "median_us") > 0;
  });
}

}  // namespace

std::string counts_for_less(const cache::WinnerRow& before, const cache::WinnerRow& after) {
  if (before.provisional) return "";
  if (after.provisional) return "the race was disturbed";
  if (raced(after, before.candidate) || after.median_us <= before.median_us) return "";
  return "the race did not come to " + before.candidate + ", which was faster; a larger --budget may";
}

Retuned retune(Device& device, cache::Store& store, const cache::WinnerRow& row, const TunePolicy& policy,
               const ProgressFn& progress) {
  AttentionWorkload workload{Signature(problem_of(row))};
  require_this_device(device, row);
  Retuned retuned;
  retuned.before = row;
  // Whoever else tunes the shape just now is waited for; nobody's winner makes this race needless.
  const auto lease = store.acquire(row.key, [](const cache::WinnerRow&) { return false; });
  CompilePool compile_pool(device, store, policy.compile_threads);
  Tuned tuned;
  if (const Status status =
          tune(device, compile_pool, workload, policy, Effort(policy.budget_seconds), progress, &tuned);
      !status.ok())
    throw Failure(row.key.signature + ": " + status.message());
  retuned.after = tuned.winner;
  retuned.why = counts_for_less(retuned.before, retuned.after);
  retuned.kept = retuned.why.empty() && store.put_winner(retuned.after);
  if (retuned.why.empty() && !retuned.kept) retuned.why = "the cache did not keep it";
  return retuned;
}

}  // namespace gqa::tools

// arrivals.cc: see arrivals.h.
#include "runtime/session/arrivals.h"

#include "runtime/tuner/open_trial.h"

namespace gqa {
namespace {

// What it would run, and from where: a row of the same key that somebody else wrote is another.
std::string content_of(const cache::WinnerRow& row) {
  return row.id() + "\n" + row.kernel + "\n" + row.candidate + "\n" + row.elsewhere;
}

}  // namespace

bool Arrivals::refused(const cache::WinnerRow& row) const {
  const std::lock_guard lock(mutex_);
  return !refused_.empty() && refused_.contains(content_of(row));
}

Status Arrivals::admit(const Workload& workload, bool may_compile, const Effort& effort, cache::WinnerRow* row,
                       std::unique_ptr<LoadedProgram>* program, bool* kept) {
  *kept = false;
  Verdict verdict;
  Status status = verify_alone(device_, compile_pool_, workload.reference(), may_compile, effort, program, &verdict);
  if (!status.ok()) return status;
  if (verdict.out_of_memory) return {Code::kOutOfMemory, verdict.reason};
  if (!verdict.passed) {
    const std::lock_guard lock(mutex_);
    refused_.insert(content_of(*row));
    return {Code::kNoCandidate, verdict.reason};
  }
  row->elsewhere.clear();
  row->error = verdict.error;
  row->bound = verdict.bound;
  *kept = store_.put_winner(*row);
  return {};
}

}  // namespace gqa

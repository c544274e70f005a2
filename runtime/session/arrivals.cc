// arrivals.cc: see arrivals.h.
#include "runtime/session/arrivals.h"

#include <utility>

#include "runtime/tuner/open_trial.h"

namespace gqa {
namespace {

// What it would run, and from where: a row of the same key that somebody else wrote is another.
std::string content_of(const cache::WinnerRow& row) {
  return row.id() + "\n" + row.kernel + "\n" + row.candidate + "\n" + row.elsewhere;
}

// A trial whose run was given up, with what it ran: the trial goes first.
struct GivenUp {
  std::unique_ptr<LoadedProgram> program;
  std::unique_ptr<Trial> trial;
};

}  // namespace

bool Arrivals::refused(const cache::WinnerRow& row) const {
  const std::lock_guard lock(mutex_);
  return !refused_.empty() && refused_.contains(content_of(row));
}

Status Arrivals::admit(const Workload& workload, bool may_compile, const Effort& effort, cache::WinnerRow* row,
                       std::unique_ptr<LoadedProgram>* program, bool* kept) {
  *kept = false;
  std::unique_ptr<Trial> trial;
  if (Status status = open_trial(device_, compile_pool_, workload.reference(), may_compile, effort, &trial);
      !status.ok())
    return status;
  const Verdict verdict = trial->verify(**program);
  Status status = effort.check();
  if (status.ok()) status = trial->health();
  if (trial->unfinished()) {
    compile_pool_.destroy_aside(std::make_shared<GivenUp>(GivenUp{std::move(*program), std::move(trial)}));
    return status.ok() ? Status(Code::kCancelled, "its verification was given up") : status;
  }
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

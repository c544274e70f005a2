// candidates.cc: see candidates.h.
#include "runtime/tuner/candidates.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace gqa {
namespace {

double share_of_bound(const TrialCandidate& candidate) {
  constexpr double kLeast = 1.0 / 64;
  return std::max(kLeast, candidate.attempt.error / candidate.attempt.bound);
}

// Errors are of one set of random inputs: those within 1.4 of the smallest count as alike, then those within 2, and so
// on.
void order_by_exactness(const std::vector<TrialCandidate*>& candidates, std::vector<Runner>* runners) {
  double smallest = 1;
  for (const TrialCandidate* candidate : candidates) smallest = std::min(smallest, share_of_bound(*candidate));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i]->exact_first)
      (*runners)[i].exactness = static_cast<int>(2 * std::log2(share_of_bound(*candidates[i]) / smallest));
  }
}

}  // namespace

void Candidates::add(const Option& option, Program program, bool shares) {
  TrialCandidate& candidate = rounds_.back().candidates.emplace_back();
  candidate.attempt = untried(option, "not tried", kBudgetSpent);
  candidate.moved_bytes = option.moved_bytes;
  candidate.exact_first = option.exact_first;
  candidate.parts = option.parts;
  candidate.shares = shares;
  candidate.round = rounds_.size() - 1;
  for (const Source& source : program.sources) candidate.kernels.push_back(kernel_of(source));
  candidate.program = std::move(program);
}

std::size_t Candidates::kernel_of(const Source& source) {
  std::vector<Kernel>& kernels = rounds_.back().kernels;
  const auto same = [&](const Kernel& kernel) { return kernel.source.text == source.text; };
  const auto at = std::find_if(kernels.begin(), kernels.end(), same);
  if (at != kernels.end()) return static_cast<std::size_t>(at - kernels.begin());
  kernels.push_back({source, std::nullopt});
  return kernels.size() - 1;
}

std::vector<Source> Candidates::sources() const {
  std::vector<Source> sources;
  for (const Kernel& kernel : rounds_.back().kernels) sources.push_back(kernel.source);
  return sources;
}

void Candidates::finish(Made made) {
  Kernel& kernel = rounds_.back().kernels[made.index];
  kernel.made = std::move(made);
}

bool Candidates::settle(TrialCandidate* candidate) const {
  const std::vector<Kernel>& kernels = round_of(*candidate).kernels;
  bool all = true;
  int spilled = 0;
  for (const std::size_t at : candidate->kernels) {
    const std::optional<Made>& made = kernels[at].made;
    all = all && made.has_value();
    if (!made) continue;
    if (!made->status.ok()) {
      fail(candidate, "compile failed", made->status);
      return false;
    }
    if (made->binary.spills_heavily()) spilled += made->binary.spill_bytes;
  }
  if (!all) return false;
  candidate->spilled = spilled > 0;
  if (candidate->spilled)
    fail(candidate, "spilled",
         {Code::kNoCandidate,
          std::to_string(spilled) + " bytes of registers go to memory: kept only if nothing else is"});
  return !candidate->spilled;
}

void Candidates::fail(TrialCandidate* candidate, const char* outcome, const Status& status) {
  candidate->judged = true;
  candidate->attempt.outcome = outcome;
  candidate->attempt.detail = first_line(status.message());
}

std::vector<Binary> Candidates::binaries(const TrialCandidate& candidate) const {
  std::vector<Binary> binaries;
  for (const std::size_t at : candidate.kernels) binaries.push_back(round_of(candidate).kernels[at].made->binary);
  return binaries;
}

std::string Candidates::keys(const TrialCandidate& candidate) const {
  std::string keys;
  for (const std::size_t at : candidate.kernels)
    keys += (keys.empty() ? "" : " ") + round_of(candidate).kernels[at].made->key;
  return keys;
}

Status Candidates::make_stored_anew(const TrialCandidate& candidate, const CompilePool& compile_pool, bool* anew) {
  for (const std::size_t at : candidate.kernels) {
    Kernel& kernel = rounds_[candidate.round].kernels[at];
    if (!kernel.made->from_store) continue;
    kernel.made = compile_pool.make(kernel.source);
    if (!kernel.made->status.ok()) return kernel.made->status;
    *anew = true;
  }
  return {};
}

std::vector<TrialCandidate*> Candidates::verified() {
  std::vector<TrialCandidate*> found;
  for (Round& round : rounds_) {
    for (TrialCandidate& candidate : round.candidates) {
      if (candidate.loaded != nullptr) found.push_back(&candidate);
    }
  }
  return found;
}

std::vector<Attempt> Candidates::attempts() const {
  std::vector<Attempt> all;
  for (const Round& round : rounds_) {
    for (const TrialCandidate& candidate : round.candidates) all.push_back(candidate.attempt);
  }
  return all;
}

std::vector<Runner> runners_of(const std::vector<TrialCandidate*>& candidates) {
  std::vector<std::tuple<double, std::size_t, std::size_t>> places;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    places.emplace_back(candidates[i]->moved_bytes, candidates[i]->program.steps.size(), i);
  std::sort(places.begin(), places.end());
  std::vector<Runner> runners(candidates.size());
  for (std::size_t place = 0; place < places.size(); ++place) runners[std::get<2>(places[place])].order = place;
  order_by_exactness(candidates, &runners);
  return runners;
}

}  // namespace gqa

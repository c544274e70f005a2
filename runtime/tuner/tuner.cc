// tuner.cc: see tuner.h. One Miss object carries a miss through its phases, in the order they are written here.
#include "runtime/tuner/tuner.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "runtime/tuner/fates.h"
#include "runtime/tuner/halving.h"
#include "runtime/tuner/stopwatch.h"
#include "runtime/tuner/workshop.h"
#include "runtime/workload/shortlist.h"

namespace gqa {
namespace {

// One shortlisted candidate on its way.
struct Lane {
  Attempt attempt;
  std::unique_ptr<Kernel> kernel;  // loaded and verified
};

// One shortlisted kernel: the candidates that share it, best rank first.
struct Group {
  std::vector<Lane> lanes;
  Made made;
  bool usable = false;  // compiled, and not set aside
};

Attempt untried(const Candidate& candidate, double predicted_us, const char* outcome, std::string detail) {
  Attempt attempt;
  attempt.candidate = candidate;
  attempt.predicted_us = predicted_us;
  attempt.outcome = outcome;
  attempt.detail = std::move(detail);
  return attempt;
}

// Where each stands: what moves least first.
std::vector<Runner> runners_of(const std::vector<Lane*>& lanes, const Problem& problem, const DeviceSpec& device) {
  std::vector<std::pair<double, Candidate>> places;
  for (const Lane* lane : lanes)
    places.emplace_back(moved_bytes(problem, lane->attempt.candidate, device), lane->attempt.candidate);
  std::vector<Runner> runners(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto before = [&](const auto& place) { return place < places[i]; };
    runners[i].order = static_cast<std::size_t>(std::count_if(places.begin(), places.end(), before));
  }
  return runners;
}

class Miss {
 public:
  Miss(Device& device, cache::Store& store, const Problem& problem, const TunePolicy& policy,
       const ProgressFn& progress)
      : device_(device),
        store_(store),
        problem_(problem),
        policy_(policy),
        effort_(policy.effort != nullptr ? *policy.effort : Effort(policy.budget_seconds)),
        report_(progress) {}

  Status run(Tuned* tuned) {
    search();
    if (Status status = make_and_verify(); !status.ok()) return status;
    if (Status status = effort_.check(); !status.ok()) return status;
    const std::vector<Lane*> verified = verified_lanes();
    if (verified.empty()) return no_candidate();
    Lane* winner = policy_.guess ? verified.front() : fastest(verified);
    if (Status status = effort_.check(); !status.ok()) return status;
    if (winner == nullptr) return no_candidate();
    winner->attempt.outcome = "winner";
    keep(winner, tuned);
    return {};
  }

 private:
  // ---- search

  void search() {
    const PhaseTimer timer(&times_.search);
    Space space = enumerate(problem_, device_.spec());
    for (Rejected& rejected : space.rejected) {
      others_.push_back(untried(rejected.candidate, 0, "pruned", std::move(rejected.reason)));
    }
    const int kernels = policy_.guess ? kGuesses : std::max(1, policy_.max_candidates);
    Shortlist list = shortlist(space.ranked, kernels, policy_.guess ? kernels : std::max(kernels, kMostAttempts));
    for (const Ranked& ranked : list.passed_over) {
      others_.push_back(
          untried(ranked.candidate, ranked.predicted_us, "not tried", "ranked too low by the cost model"));
    }
    for (const ShortlistedKernel& kernel : list.kernels) {
      Group& group = groups_.emplace_back();
      for (const Ranked& ranked : kernel.candidates) {
        group.lanes.emplace_back().attempt =
            untried(ranked.candidate, ranked.predicted_us, "not tried", "the budget was spent");
      }
      shown_.selected += static_cast<int>(kernel.candidates.size());
    }
    shown_.pruned = static_cast<int>(space.rejected.size());
    shown_.enumerated = static_cast<int>(space.rejected.size() + space.ranked.size());
    report(TunePhase::kSearch);
  }

  // ---- compile and verify, side by side

  Status make_and_verify() {
    if (groups_.empty()) return {};
    std::vector<Recipe> kernels;
    for (const Group& group : groups_)
      kernels.push_back(recipe_of(device_, problem_, group.lanes.front().attempt.candidate));
    Workshop workshop(
        device_, store_, std::move(kernels), policy_.compile_threads,
        [this] { return !any_verified_.load() || !effort_.spent(kCompileShare); }, effort_, policy_.background);
    if (Status status = open_trial(); !status.ok()) return status;
    while (std::optional<Made> made = wait_for(&workshop)) {
      take(std::move(*made));
      if (policy_.guess && any_verified_) return {};
    }
    if (!policy_.guess) verify_riders();
    if (!any_verified_) verify_spilled();
    return {};
  }

  Status open_trial() {
    const PhaseTimer timer(&times_.verify);
    return device_.make_trial(problem_, effort_, &trial_);
  }

  std::optional<Made> wait_for(Workshop* workshop) {
    const PhaseTimer timer(&times_.compile);
    return workshop->next();
  }

  void take(Made made) {
    Group& group = groups_[made.index];
    group.made = std::move(made);
    ++shown_.compiled;
    report(TunePhase::kCompile);
    if (!group.made.status.ok()) {
      if (group.made.status.code() == Code::kNoCompiler) no_compiler_ = group.made.status;
      mark(&group, "compile failed", first_line(group.made.status.message()));
    } else if (group.made.binary.spills_heavily()) {
      mark(&group, "spilled",
           std::to_string(group.made.binary.spill_bytes) +
               " bytes of registers go to memory: kept only if nothing else is");
    } else {
      group.usable = true;
    }
    if (policy_.guess) {
      verify_in_order();
    } else if (group.usable && (!any_verified_ || !effort_.spent(kVerifyShare))) {
      verify(&group, &group.lanes.front());
    }
  }

  void mark(Group* group, const char* outcome, const std::string& detail) {
    for (Lane& lane : group->lanes) {
      lane.attempt.outcome = outcome;
      lane.attempt.detail = detail;
    }
  }

  // A guess answers with the best rank that verifies, not with whichever compiled first.
  void verify_in_order() {
    while (!any_verified_ && next_guess_ < groups_.size() && !groups_[next_guess_].made.key.empty()) {
      Group& group = groups_[next_guess_++];
      if (group.usable) verify(&group, &group.lanes.front());
    }
  }

  void verify_riders() {
    std::vector<std::pair<Lane*, Group*>> riders;
    for (Group& group : groups_) {
      if (!group.usable || group.lanes.front().kernel == nullptr) continue;
      for (std::size_t i = 1; i < group.lanes.size(); ++i) riders.emplace_back(&group.lanes[i], &group);
    }
    std::stable_sort(riders.begin(), riders.end(), [](const auto& a, const auto& b) {
      return a.first->attempt.predicted_us < b.first->attempt.predicted_us;
    });
    for (const auto& [lane, group] : riders) {
      if (effort_.spent(kVerifyShare)) return;
      verify(group, lane);
    }
  }

  void verify_spilled() {
    for (Group& group : groups_) {
      if (!group.made.status.ok() || !group.made.binary.spills_heavily()) continue;
      verify(&group, &group.lanes.front());
      const bool over = effort_.spent(kVerifyShare);
      if (any_verified_ && (policy_.guess || over)) return;
    }
  }

  void verify(Group* group, Lane* lane) {
    if (effort_.cancelled()) return;
    const PhaseTimer timer(&times_.verify);
    Attempt& attempt = lane->attempt;
    if (Status status = load(group, attempt.candidate, &lane->kernel); !status.ok()) {
      attempt.outcome = "load failed";
      attempt.detail = first_line(status.message());
      return;
    }
    const Verdict verdict = trial_->verify(*lane->kernel);
    if (effort_.cancelled() || !record(verdict, &attempt)) {
      lane->kernel.reset();
      return;
    }
    ++shown_.verified;
    if (!any_verified_.exchange(true)) times_.first_correct = watch_.seconds();
    report(TunePhase::kVerify);
  }

  // A stored kernel that the driver refuses is made anew.
  Status load(Group* group, const Candidate& candidate, std::unique_ptr<Kernel>* kernel) {
    Status status = device_.load(problem_, candidate, group->made.binary, kernel);
    if (status.ok() || !group->made.from_store) return status;
    const std::size_t index = group->made.index;
    group->made = Workshop::make(device_, store_, recipe_of(device_, problem_, candidate));
    group->made.index = index;
    if (!group->made.status.ok()) return group->made.status;
    return device_.load(problem_, candidate, group->made.binary, kernel);
  }

  std::vector<Lane*> verified_lanes() {
    std::vector<Lane*> lanes;
    for (Group& group : groups_) {
      for (Lane& lane : group.lanes) {
        if (lane.kernel != nullptr) lanes.push_back(&lane);
      }
    }
    return lanes;
  }

  // ---- time

  Lane* fastest(const std::vector<Lane*>& lanes) {
    const PhaseTimer timer(&times_.time);
    clock_before_ = trial_->clock_mhz();
    std::vector<Runner> runners = runners_of(lanes, problem_, device_.spec());
    Race timing;
    timing.sample = [&](std::size_t index, int count, std::vector<double>* microseconds) {
      return trial_->time(*lanes[index]->kernel, count, microseconds);
    };
    timing.out_of_time = [this] { return effort_.spent() || effort_.cancelled(); };
    timing.progress = [&] { report_timing(runners); };
    const int winner = race(timing, &runners);
    clock_after_ = trial_->clock_mhz();
    for (std::size_t i = 0; i < lanes.size(); ++i) record(runners[i], &lanes[i]->attempt);
    return winner < 0 ? nullptr : lanes[static_cast<std::size_t>(winner)];
  }

  void report_timing(const std::vector<Runner>& runners) {
    const Standing now = standing(runners);
    shown_.timed = now.timed;
    shown_.best_us = now.best_us;
    report(TunePhase::kTime);
  }

  // ---- the result

  std::string kernel_of(const Lane* winner) const {
    for (const Group& group : groups_) {
      for (const Lane& lane : group.lanes) {
        if (&lane == winner) return group.made.key;
      }
    }
    return "";
  }

  std::vector<Attempt> attempts() const {
    std::vector<Attempt> all;
    for (const Group& group : groups_) {
      for (const Lane& lane : group.lanes) all.push_back(lane.attempt);
    }
    all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }

  void keep(Lane* winner, Tuned* tuned) const {
    const Attempt& attempt = winner->attempt;
    tuned->candidate = attempt.candidate;
    tuned->times = times_;
    tuned->attempts = attempts();
    cache::WinnerRow& row = tuned->winner;
    row.key = winner_key(device_, problem_);
    row.kernel = kernel_of(winner);
    row.candidate = to_text(attempt.candidate);
    row.median_us = attempt.median_us;
    row.spread_us = attempt.spread_us;
    row.clock_mhz = clock_before_;
    row.error = attempt.error;
    row.bound = attempt.bound;
    row.driver = device_.driver();
    row.evidence = evidence_json(tuned->attempts, times_, clock_before_, clock_after_);
    tuned->kernel = std::move(winner->kernel);
  }

  // Every outcome with its count and the first reason.
  Status no_candidate() const {
    if (!no_compiler_.ok()) return no_compiler_;
    std::map<std::string, std::pair<int, std::string>> outcomes;
    for (const Attempt& attempt : attempts()) {
      auto& [count, first] = outcomes[attempt.outcome];
      if (count++ == 0) first = to_text(attempt.candidate) + ": " + attempt.detail;
    }
    std::string message = "no candidate for " + to_text(problem_) + " on " + device_.spec().arch + " can be used";
    for (const auto& [outcome, what] : outcomes) {
      message += "; " + std::to_string(what.first) + " " + outcome + " (first " + what.second + ")";
    }
    return {Code::kNoCandidate, message};
  }

  void report(TunePhase phase) {
    if (!report_) return;
    shown_.phase = phase;
    shown_.seconds = watch_.seconds();
    shown_.seconds_left = std::max(0.0, policy_.budget_seconds - shown_.seconds);
    report_(shown_);
  }

  Device& device_;
  cache::Store& store_;
  const Problem problem_;
  const TunePolicy policy_;
  const Effort effort_;
  const ProgressFn& report_;
  const Stopwatch watch_;
  Progress shown_;
  PhaseTimes times_;
  std::vector<Group> groups_;    // best rank first
  std::vector<Attempt> others_;  // pruned and passed over
  std::unique_ptr<Trial> trial_;
  std::size_t next_guess_ = 0;
  std::atomic<bool> any_verified_ = false;  // read by compile threads
  Status no_compiler_;
  double clock_before_ = 0, clock_after_ = 0;
};

}  // namespace

Status tune(Device& device, cache::Store& store, const Problem& problem, const TunePolicy& policy,
            const ProgressFn& progress, Tuned* tuned) {
  return Miss(device, store, problem, policy, progress).run(tuned);
}

}  // namespace gqa

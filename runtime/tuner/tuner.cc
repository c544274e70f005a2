// tuner.cc: see tuner.h. One Miss carries a miss through its phases, in the order they are written here. A round of
// options that are safe comes first; others have their round only where none of those passed.
#include "runtime/tuner/tuner.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>

#include "runtime/tuner/candidates.h"
#include "runtime/tuner/open_trial.h"
#include "runtime/tuner/races.h"
#include "runtime/tuner/shortlist.h"
#include "runtime/tuner/stopwatch.h"
#include "runtime/workload/keys.h"

namespace gqa {
namespace {

constexpr std::size_t kMostAttempts = 32;  // verified at most
constexpr std::size_t kGuesses = 3;        // options that a guess compiles at most
// Shares of the budget after which no further option is chosen, none further compiled or verified: timing gets the
// rest.
constexpr double kChooseShare = 0.4, kCompileShare = 0.6, kVerifyShare = 0.8;
// The same where the device says how long a race may last.
constexpr double kBriskVerifyShare = 0.6, kBriskRaceShare = 0.8, kVerifyRaces = 2;
// Where verification timed a run: who took that much longer than the best there does not race. A shorter best says more
// of caches and threads that wake up than of a candidate.
constexpr double kSlowInVerification = 1.5, kTellingRunUs = 2000;
constexpr double kTurnSeconds = 0.1;  // where races are short
constexpr double kFewSamples = 8;     // of each candidate: a race with no time for so many is brief
// A budget of less is meant to try little; of one that is not, an idle device tries more than one candidate in it.
constexpr double kFairBudget = 1;

class Miss {
 public:
  Miss(Device& device, CompilePool& compile_pool, Workload& workload, const TunePolicy& policy, const Effort& effort,
       const ProgressFn& progress)
      : device_(device),
        compile_pool_(compile_pool),
        workload_(workload),
        policy_(policy),
        effort_(effort),
        report_(progress) {}

  Status run(Tuned* tuned) {
    bool more = true;
    for (int round = 0; more && !any_verified_; ++round) {
      if (Status status = search(round, &more); !status.ok()) return status;
      if (Status status = make_and_verify(); !status.ok()) return status;
      if (Status status = stopped(); !status.ok()) return status;
    }
    const std::vector<TrialCandidate*> verified = candidates_.verified();
    if (verified.empty()) return nothing_left();
    TrialCandidate* winner = policy_.guess ? verified.front() : fastest(verified);
    if (Status status = stopped(); !status.ok()) return status;
    if (winner == nullptr && !out_of_memory_.ok()) winner = verified.front();  // untimed
    if (winner == nullptr) return nothing_left();
    winner->attempt.outcome = "winner";
    keep(winner, tuned);
    return {};
  }

  bool unfinished() const { return trial_ != nullptr && trial_->unfinished(); }

 private:
  // Cancelled, or the device works for nobody any more: no option is to blame.
  Status stopped() const { return broken_.ok() ? effort_.check() : broken_; }

  void note(const Status& failure) {
    if (failure.code() == Code::kOutOfMemory)
      out_of_memory_ = failure;
    else if (trial_ != nullptr && failure.code() != Code::kCancelled)
      broken_ = trial_->health();
  }

  // ---- search, and choose what to try

  Status search(int round, bool* more) {
    const PhaseTimer timer(&times_.search);
    Options options;
    const Status status = workload_.options(
        round, device_.spec(), effort_, [this](const SearchCounts& counts) { show(counts); }, &options);
    if (!status.ok()) return status;
    if (round == 0) {
      evidence_ = std::move(options.evidence);
      search_report_ = std::move(options.report);
      for (const Rejection& rejected : options.rejected) others_.push_back(rejection(rejected));
    }
    *more = options.more;
    show(options.counts);
    choose(options.ranked);
    shown_.selected += static_cast<std::int64_t>(candidates_.in_round().size());
    shown_.kernels += static_cast<std::int64_t>(candidates_.sources().size());
    report(TunePhase::kSearch);
    return {};
  }

  void choose(const std::vector<Option>& ranked) {
    const std::size_t kernels =
        policy_.guess ? kGuesses : static_cast<std::size_t>(std::max(1, policy_.max_candidates));
    std::vector<Program> programs(ranked.size());
    bool any = false;
    const auto usable = [&](std::size_t at) {
      if (any && effort_.spent(kChooseShare)) {
        others_.push_back(untried(ranked[at], "not tried", kBudgetSpent));
        return false;
      }
      const Status status = ranked[at].make(&programs[at]);
      if (!status.ok()) others_.push_back(untried(ranked[at], workload_.unmade(), first_line(status.message())));
      any = any || status.ok();
      return status.ok();
    };
    const Shortlist list =
        shortlist(ranked, kernels, policy_.guess ? kernels : std::max(kernels, kMostAttempts), usable);
    candidates_.begin_round();
    for (const std::size_t at : list.own) candidates_.add(ranked[at], std::move(programs[at]), false);
    for (const std::size_t at : list.sharing) candidates_.add(ranked[at], std::move(programs[at]), true);
    for (const std::size_t at : list.passed_over)
      others_.push_back(untried(ranked[at], "not tried", "ranked too low by the cost model"));
  }

  static Attempt rejection(const Rejection& rejected) {
    Attempt attempt;
    attempt.name = rejected.name;
    attempt.outcome = "pruned";
    attempt.detail = rejected.reason;
    return attempt;
  }

  // ---- compile and verify, side by side

  Status make_and_verify() {
    if (candidates_.in_round().empty()) return {};
    const std::unique_ptr<CompilePool::Batch> batch = compile_pool_.make(candidates_.sources(), [this] {
      return !effort_.cancelled() && (!any_verified_.load() || !effort_.spent(kCompileShare));
    });
    if (Status status = begin_trial(); !status.ok()) return status;
    while (std::optional<Made> made = wait_for(batch.get())) {
      take(std::move(*made));
      if (!broken_.ok()) return broken_;
      if (policy_.guess && any_verified_) return {};
    }
    if (!policy_.guess) verify_sharing();
    if (!any_verified_) verify_spilled();
    return {};
  }

  Status begin_trial() {
    if (trial_ != nullptr) return {};
    const PhaseTimer timer(&times_.verify);
    return open_trial(device_, compile_pool_, workload_.reference(), true, effort_, &trial_);
  }

  std::optional<Made> wait_for(CompilePool::Batch* batch) {
    const PhaseTimer timer(&times_.compile);
    return batch->next(effort_);
  }

  void take(Made made) {
    if (made.status.code() == Code::kNoCompiler) no_compiler_ = made.status;
    ++shown_.compiled;
    report(TunePhase::kCompile);
    candidates_.finish(std::move(made));
    for (TrialCandidate& candidate : candidates_.in_round()) {
      if (!stopped().ok()) return;
      if (candidate.judged || (candidate.shares && !policy_.guess)) continue;
      if (candidates_.settle(&candidate)) {
        verify(&candidate);
      } else if (policy_.guess && !candidate.judged) {
        return;  // a guess answers with the best rank that verifies, not with whichever compiled first
      }
      if (policy_.guess && any_verified_) return;
    }
  }

  bool over() const {
    return !stopped().ok() ||
           (any_verified_ && (effort_.spent(brisk() ? kBriskVerifyShare : kVerifyShare) || enough_verified()));
  }

  // The device's races are short.
  bool brisk() const { return std::isfinite(device_.race_seconds(0)); }

  bool enough_verified() const {
    return effort_.seconds() - times_.first_correct > kVerifyRaces * device_.race_seconds(best_run_us_);
  }

  // Those that share kernels, the most promising first.
  void verify_sharing() {
    std::vector<TrialCandidate*> sharing;
    for (TrialCandidate& candidate : candidates_.in_round()) {
      if (!candidate.judged && candidates_.settle(&candidate)) sharing.push_back(&candidate);
    }
    std::stable_sort(sharing.begin(), sharing.end(), [](const TrialCandidate* a, const TrialCandidate* b) {
      return a->attempt.predicted_us < b->attempt.predicted_us;
    });
    for (TrialCandidate* candidate : sharing) {
      if (over()) return;
      verify(candidate);
    }
  }

  void verify_spilled() {
    for (TrialCandidate& candidate : candidates_.in_round()) {
      if (!candidate.spilled || candidate.shares) continue;
      verify(&candidate);
      if (over() || (policy_.guess && any_verified_)) return;
    }
  }

  void verify(TrialCandidate* candidate) {
    candidate->judged = true;
    if (over()) {
      if (any_verified_ && enough_verified()) candidate->attempt.detail = "so short a call is not worth a longer race";
      return;
    }
    const PhaseTimer timer(&times_.verify);
    if (Status status = load(candidate); !status.ok()) {
      note(status);
      const bool memory = status.code() == Code::kOutOfMemory;
      return candidates_.fail(candidate, memory ? "out of memory" : "load failed", status);
    }
    if (best_run_us_ >= kTellingRunUs) trial_->hopeless_us = kSlowInVerification * best_run_us_;
    const Verdict verdict = trial_->verify(*candidate->loaded);
    if (verdict.hopeless) {
      candidate->loaded.reset();
      return candidates_.fail(candidate, "slower", {Code::kNoCandidate, slow_in_verification(verdict.run_us)});
    }
    if (!record(verdict, &candidate->attempt) && !passes_by_parts(candidate)) {
      note({verdict.out_of_memory ? Code::kOutOfMemory : Code::kDeviceFailed, verdict.reason});
      candidate->loaded.reset();
      return;
    }
    ++shown_.verified;
    candidate->run_us = verdict.run_us;
    if (best_run_us_ == 0 || verdict.run_us < best_run_us_) best_run_us_ = verdict.run_us;
    if (!any_verified_.exchange(true)) times_.first_correct = effort_.seconds();
    report(TunePhase::kVerify);
  }

  // Where numbers cancel, operator by operator in the types themselves is off by more than its yardstick makes of it;
  // each operator, on numbers of its own, is not.
  bool passes_by_parts(TrialCandidate* candidate) {
    if (candidate->parts.empty() || effort_.cancelled()) return false;
    for (const Part& part : candidate->parts)
      if (!passes(part)) return false;
    candidate->attempt.outcome = "untimed";
    candidate->attempt.detail.clear();
    candidate->attempt.by_parts = true;
    return true;
  }

  bool passes(const Part& part) {
    std::vector<Binary> binaries;
    for (const Source& source : part.program.sources) {
      Made made = compile_pool_.find_or_make(source);
      if (!made.status.ok()) return false;
      binaries.push_back(std::move(made.binary));
    }
    std::unique_ptr<LoadedProgram> loaded;
    Verdict verdict;
    return device_.load(part.program, binaries, &loaded).ok() &&
           verify_alone(device_, compile_pool_, {part.graph}, true, effort_, &loaded, &verdict).ok() && verdict.passed;
  }

  // Stored kernels that the driver refuses are made anew.
  Status load(TrialCandidate* candidate) {
    Status status = device_.load(candidate->program, candidates_.binaries(*candidate), &candidate->loaded);
    if (status.ok() || status.code() == Code::kOutOfMemory) return status;
    bool anew = false;
    if (Status made = candidates_.make_stored_anew(*candidate, compile_pool_, &anew); !made.ok()) return made;
    return anew ? device_.load(candidate->program, candidates_.binaries(*candidate), &candidate->loaded) : status;
  }

  // ---- time

  TrialCandidate* fastest(const std::vector<TrialCandidate*>& verified) {
    const PhaseTimer timer(&times_.time);
    const std::string starved = starved_of_rivals(verified.size());
    clocks_.before = trial_->clock_mhz();
    std::vector<Runner> runners = runners_of(verified);
    leave_out_slow(verified, &runners);
    std::vector<bool> short_of_memory(verified.size());
    Course course = course_of_races(verified.size());
    course.sample = [&](std::size_t index, int count, std::vector<double>* microseconds) {
      Status status = sample(*verified[index]->loaded, count, microseconds);
      if (!status.ok()) note(status);
      short_of_memory[index] = status.code() == Code::kOutOfMemory;
      return status;
    };
    raced_ = run_races(course, runners);
    if (raced_.disturbed.empty()) raced_.disturbed = starved;
    clocks_.after = trial_->clock_mhz();
    for (std::size_t i = 0; i < verified.size(); ++i) {
      record(raced_.runners[i], &verified[i]->attempt);
      if (short_of_memory[i]) verified[i]->attempt.outcome = "out of memory";
    }
    return raced_.winner < 0 ? nullptr : verified[static_cast<std::size_t>(raced_.winner)];
  }

  // Whether load took the time in which others would have been verified; "": no.
  std::string starved_of_rivals(std::size_t verified) {
    if (!policy_.heed_load) return "";
    const double others = trial_->taken_by_others();  // since the trial began, where the device can tell
    const std::vector<Attempt> all = candidates_.attempts();
    const auto missed =
        std::count_if(all.begin(), all.end(), [](const Attempt& a) { return a.detail == kBudgetSpent; });
    const bool alone = verified == 1 && effort_.budget() >= kFairBudget;
    if (missed == 0 || (others <= kMostOthers && !alone)) return "";
    return "the budget ended before " + std::to_string(missed) + " of " + std::to_string(all.size()) +
           " candidates were verified";
  }

  Course course_of_races(std::size_t entrants) {
    Course course;
    course.stop = [this] { return effort_.spent(brisk() ? kBriskRaceShare : 1) || !stopped().ok(); };
    course.seconds_left = [this] { return effort_.left(); };
    course.most_seconds = [this](double best_us) { return device_.race_seconds(best_us); };
    course.others = [this] { return policy_.heed_load ? trial_->taken_by_others() : 0; };
    course.progress = [this](const std::vector<Runner>& runners) { report_timing(runners); };
    if (!policy_.heed_load) course.most_races = 1;
    const double few_samples_us = kFewSamples * best_run_us_ * static_cast<double>(entrants);
    course.brief = few_samples_us > 1e6 * device_.race_seconds(best_run_us_);
    return course;
  }

  // Where races are short, a turn may end within.
  Status sample(const LoadedProgram& program, int count, std::vector<double>* microseconds) {
    if (!brisk()) return trial_->time(program, count, microseconds);
    const Stopwatch watch;
    Status status;
    for (int taken = 0; taken < count && status.ok(); ++taken) {
      if (taken > 0 && watch.seconds() > kTurnSeconds) break;
      status = trial_->time(program, 1, microseconds);
    }
    return status;
  }

  std::string slow_in_verification(double run_us) const {
    return times_slower(run_us / best_run_us_) + ", in verification";
  }

  void leave_out_slow(const std::vector<TrialCandidate*>& verified, std::vector<Runner>* runners) const {
    if (best_run_us_ < kTellingRunUs) return;
    for (std::size_t i = 0; i < verified.size(); ++i) {
      if (verified[i]->run_us <= kSlowInVerification * best_run_us_) continue;
      (*runners)[i].racing = false;
      (*runners)[i].why_out = slow_in_verification(verified[i]->run_us);
    }
  }

  void report_timing(const std::vector<Runner>& runners) {
    const Standing now = standing(runners);
    shown_.timed = now.timed;
    shown_.best_us = now.best_us;
    report(TunePhase::kTime);
  }

  // ---- the result

  std::vector<Attempt> attempts() const {
    std::vector<Attempt> all = candidates_.attempts();
    all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }

  void keep(TrialCandidate* winner, Tuned* tuned) const {
    const Attempt& attempt = winner->attempt;
    tuned->times = times_;
    tuned->attempts = attempts();
    cache::WinnerRow& row = tuned->winner;
    row = winner_row(device_, workload_.signature(), winner->program);
    row.kernel = candidates_.keys(*winner);
    // With more memory, or on a quiet device, another may win.
    const bool has_rivals = tuned->attempts.size() > 1;
    row.provisional = !out_of_memory_.ok() || (policy_.heed_load && has_rivals && !raced_.disturbed.empty());
    row.median_us = attempt.median_us;
    row.spread_us = attempt.spread_us;
    row.clock_mhz = clocks_.before;
    row.error = attempt.error;
    row.bound = attempt.bound;
    tuned->disturbed = raced_.disturbed;
    row.evidence = evidence_json(tuned->attempts, evidence_, times_, clocks_, {raced_.races, raced_.disturbed});
    tuned->program = std::move(winner->program);
    tuned->loaded = std::move(winner->loaded);
  }

  Status nothing_left() const {
    if (!no_compiler_.ok()) return no_compiler_;
    if (!out_of_memory_.ok()) return out_of_memory_;
    return {Code::kNoCandidate, "no candidate for " + workload_.name() + " on " + device_.spec().identity() +
                                    " can be used" + outcomes_text(attempts()) + search_report_};
  }

  void show(const SearchCounts& counts) {
    shown_.enumerated = counts.enumerated;
    shown_.pruned = counts.pruned;
    shown_.proved = counts.proved;
    report(TunePhase::kSearch);
  }

  void report(TunePhase phase) {
    if (!report_) return;
    shown_.phase = phase;
    shown_.seconds = effort_.seconds();
    shown_.seconds_left = std::max(0.0, effort_.left());
    report_(shown_);
  }

  Device& device_;
  CompilePool& compile_pool_;
  Workload& workload_;
  const TunePolicy policy_;
  const Effort& effort_;
  const ProgressFn& report_;
  Progress shown_;
  PhaseTimes times_;
  Candidates candidates_;
  std::vector<Attempt> others_;           // pruned, passed over or not made
  std::string evidence_, search_report_;  // of the search
  std::unique_ptr<Trial> trial_;
  double best_run_us_ = 0;                  // in verification, where it is timed
  std::atomic<bool> any_verified_ = false;  // read by compile threads
  Status no_compiler_, out_of_memory_, broken_;
  Clocks clocks_;
  Raced raced_;
};

}  // namespace

Status tune(Device& device, CompilePool& compile_pool, Workload& workload, const TunePolicy& policy,
            const Effort& effort, const ProgressFn& progress, Tuned* tuned) {
  auto miss = std::make_shared<Miss>(device, compile_pool, workload, policy, effort, progress);
  Status status = miss->run(tuned);
  if (miss->unfinished()) compile_pool.destroy_aside(std::move(miss));
  return status;
}

}  // namespace gqa

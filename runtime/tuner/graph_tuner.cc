// graph_tuner.cc: see graph_tuner.h. One GraphMiss carries a miss through its phases, in the order they are written
// here. Programs that cannot overflow are a round of their own; the others have theirs only where none of those passed.
#include "runtime/tuner/graph_tuner.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "runtime/tuner/fates.h"
#include "runtime/tuner/halving.h"
#include "runtime/tuner/stopwatch.h"
#include "runtime/tuner/workshop.h"
#include "runtime/workload/graph_shortlist.h"
#include "search/graph/ir/canonical.h"
#include "search/graph/ir/graph_text.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::size_t kMostContenders = 64;  // looked at, a round
// Shares of the budget after which the search goes on with what it has; kChooseShare: with the programs chosen so far.
constexpr double kRewriteShare = 0.1, kEnumerateShare = 0.2, kProveShare = 0.3, kChooseShare = 0.4;

// One distinct kernel of a round, on its way.
struct Part {
  const PlannedKernel* kernel;
  std::string key;
  std::optional<Made> made;
};

// One chosen program of a round.
struct Lane {
  Contender contender;
  ProgramAttempt attempt;
  std::vector<std::size_t> parts;         // its kernels, in launch order
  std::unique_ptr<LoadedProgram> loaded;  // and verified
  bool judged = false, spilled = false;
};

struct Round {
  std::vector<std::unique_ptr<Lane>> lanes;  // best rank first
  std::vector<Part> parts;
};

ProgramAttempt untried(const Contender& contender, std::string detail) {
  ProgramAttempt attempt;
  attempt.predicted_us = contender.predicted_us;
  attempt.outcome = "not tried";
  attempt.detail = std::move(detail);
  attempt.program = describe(contender.plan.program);
  attempt.threads = thread_text(contender.plan.program);
  attempt.safe = contender.safe;
  attempt.rules = contender.rules;
  return attempt;
}

class GraphMiss {
 public:
  GraphMiss(Device& device, cache::Store& store, const GraphQuestion& question, const TunePolicy& policy,
            const GraphProgressFn& progress)
      : device_(device),
        store_(store),
        question_(question),
        policy_(policy),
        effort_(policy.effort != nullptr ? *policy.effort : Effort(policy.budget_seconds)),
        report_(progress) {}

  Status run(TunedGraph* tuned) {
    if (Status status = search(); !status.ok()) return status;
    for (const bool safe : {true, false}) {
      if (any_verified_) break;
      choose(safe);
      if (Status status = make_and_verify(); !status.ok()) return status;
      if (Status status = effort_.check(); !status.ok()) return status;
    }
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

  Status search() {
    const PhaseTimer timer(&times_.search);
    SearchOptions options;
    options.config = question_.config;
    options.seed = question_.seed;
    double enumerated = 0;
    options.progress = [&](SearchStep step, SearchReport* report) {
      if (step == SearchStep::kEnumerated) report->search_seconds = enumerated = watch_.seconds();
      if (step == SearchStep::kProved) report->proof_seconds = watch_.seconds() - enumerated;
      show_search(*report);
    };
    options.stop = [this](SearchStep step) {
      const double share = step == SearchStep::kRewritten    ? kRewriteShare
                           : step == SearchStep::kEnumerated ? kEnumerateShare
                                                             : kProveShare;
      return effort_.cancelled() || effort_.spent(share);
    };
    Status status = superoptimize(question_.graph, device_.spec(), options, &found_);
    return effort_.cancelled() ? effort_.check() : status;
  }

  void show_search(const SearchReport& report) {
    shown_.explored = shown_.pruned = 0;
#define GQA_STAGE(field, text)              \
  shown_.explored += report.field.explored; \
  shown_.pruned += report.field.explored - report.field.kept;
    GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
    shown_.proved = report.proved;
    this->report(TunePhase::kSearch);
  }

  // ---- choose: at most so many programs whose kernels are new, and some that need none of their own

  void choose(bool safe) {
    const PhaseTimer timer(&times_.search);
    const auto kernels = static_cast<std::size_t>(policy_.guess ? kGuesses : std::max(1, policy_.max_candidates));
    const std::size_t most = policy_.guess ? kernels : std::max<std::size_t>(kernels, kMostAttempts);
    std::size_t fresh = 0;
    Round& round = rounds_.emplace_back();
    for (Contender& contender : contenders(found_.programs, safe, device_.spec(), kMostContenders)) {
      auto lane = std::make_unique<Lane>();
      lane->contender = std::move(contender);
      lane->attempt = untried(lane->contender, "ranked too low by the cost model");
      const std::vector<std::string> keys = keys_of(*lane);
      const bool rides = std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return known(key); });
      const bool late = !round.lanes.empty() && effort_.spent(kChooseShare);
      if (late || round.lanes.size() == most || (!rides && fresh == kernels) || !proved(lane.get())) {
        others_.push_back(std::move(lane->attempt));
        continue;
      }
      lane->attempt.detail = "the budget was spent";
      fresh += rides ? 0 : 1;
      for (std::size_t at = 0; at < keys.size(); ++at) lane->parts.push_back(part_of(*lane, at, keys[at]));
      round.lanes.push_back(std::move(lane));
    }
    shown_.programs += static_cast<std::int64_t>(round.lanes.size());
    shown_.kernels += static_cast<std::int64_t>(round.parts.size());
    report(TunePhase::kSearch);
  }

  std::vector<std::string> keys_of(const Lane& lane) const {
    std::vector<std::string> keys;
    for (const PlannedKernel& kernel : lane.contender.plan.kernels) keys.push_back(kernel_key(device_, kernel));
    return keys;
  }

  bool known(const std::string& key) const {
    const std::vector<Part>& parts = rounds_.back().parts;
    return std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.key == key; });
  }

  std::size_t part_of(const Lane& lane, std::size_t kernel, const std::string& key) {
    std::vector<Part>& parts = rounds_.back().parts;
    const auto same = [&](const Part& part) { return part.key == key; };
    const auto at = std::find_if(parts.begin(), parts.end(), same);
    if (at != parts.end()) return static_cast<std::size_t>(at - parts.begin());
    parts.push_back({&lane.contender.plan.kernels[kernel], key, std::nullopt});
    return parts.size() - 1;
  }

  // What the thread level made of a program is held against the user's graph once more.
  bool proved(Lane* lane) {
    const auto stop = effort_.stop();
    if (proves(question_.graph, lane->contender.plan.program, question_.seed, stop)) return true;
    lane->attempt.outcome = "not proved";
    lane->attempt.detail = "its thread plan does not compute the graph";
    return false;
  }

  // ---- compile and verify, side by side

  Status make_and_verify() {
    Round& round = rounds_.back();
    if (round.lanes.empty()) return {};
    std::vector<Recipe> recipes;
    for (const Part& part : round.parts) recipes.push_back(recipe_of(device_, *part.kernel, part.key));
    Workshop workshop(
        device_, store_, std::move(recipes), policy_.compile_threads,
        [this] { return !any_verified_.load() || !effort_.spent(kCompileShare); }, effort_, policy_.background);
    if (Status status = open_trial(); !status.ok()) return status;
    while (std::optional<Made> made = wait_for(&workshop)) {
      take(&round, std::move(*made));
      if (policy_.guess && any_verified_) return {};
    }
    if (!any_verified_) verify_spilled(&round);
    return {};
  }

  Status open_trial() {
    if (trial_ != nullptr) return {};
    const PhaseTimer timer(&times_.verify);
    return device_.make_program_trial(question_.graph, effort_, &trial_);
  }

  std::optional<Made> wait_for(Workshop* workshop) {
    const PhaseTimer timer(&times_.compile);
    return workshop->next();
  }

  void take(Round* round, Made made) {
    const std::size_t index = made.index;
    if (made.status.code() == Code::kNoCompiler) no_compiler_ = made.status;
    round->parts[index].made = std::move(made);
    ++shown_.compiled;
    report(TunePhase::kCompile);
    for (const std::unique_ptr<Lane>& lane : round->lanes) {
      if (!lane->judged) judge(round, lane.get());
      // A guess answers with the best rank that verifies, not with whichever compiled first.
      if (policy_.guess && (any_verified_ || !lane->judged)) return;
    }
  }

  // Verifies the program once all its kernels are there, and none of them is to be set aside.
  void judge(Round* round, Lane* lane) {
    for (const std::size_t part : lane->parts) {
      const std::optional<Made>& made = round->parts[part].made;
      if (made && !made->status.ok()) return fail(lane, "compile failed", made->status);
    }
    for (const std::size_t part : lane->parts)
      if (!round->parts[part].made) return;
    int spilled = 0;
    for (const std::size_t part : lane->parts) {
      const Binary& binary = round->parts[part].made->binary;
      if (binary.spills_heavily()) spilled += binary.spill_bytes;
    }
    if (spilled > 0) {
      lane->spilled = true;
      return fail(lane, "spilled",
                  {Code::kNoCandidate,
                   std::to_string(spilled) + " bytes of registers go to memory: kept only if nothing else is"});
    }
    if (!any_verified_ || !effort_.spent(kVerifyShare)) verify(round, lane);
    lane->judged = true;
  }

  static void fail(Lane* lane, const char* outcome, const Status& status) {
    lane->judged = true;
    lane->attempt.outcome = outcome;
    lane->attempt.detail = first_line(status.message());
  }

  void verify_spilled(Round* round) {
    for (const std::unique_ptr<Lane>& lane : round->lanes) {
      if (!lane->spilled) continue;
      verify(round, lane.get());
      const bool over = effort_.spent(kVerifyShare);
      if (any_verified_ && (policy_.guess || over)) return;
    }
  }

  void verify(Round* round, Lane* lane) {
    if (effort_.cancelled()) return;
    const PhaseTimer timer(&times_.verify);
    if (Status status = load(round, lane); !status.ok()) return fail(lane, "load failed", status);
    const Verdict verdict = trial_->verify(*lane->loaded);
    if (effort_.cancelled() || !record(verdict, &lane->attempt)) {
      lane->loaded.reset();
      return;
    }
    ++shown_.verified;
    if (!any_verified_.exchange(true)) times_.first_correct = watch_.seconds();
    report(TunePhase::kVerify);
  }

  // Stored kernels that the driver refuses are made anew.
  Status load(Round* round, Lane* lane) {
    const auto try_load = [&] {
      std::vector<Binary> binaries;
      for (const std::size_t part : lane->parts) binaries.push_back(round->parts[part].made->binary);
      return device_.load_program(lane->contender.plan, binaries, &lane->loaded);
    };
    const Status refused = try_load();
    if (refused.ok()) return refused;
    bool anew = false;
    for (const std::size_t at : lane->parts) {
      Part& part = round->parts[at];
      if (!part.made->from_store) continue;
      part.made = Workshop::make(device_, store_, recipe_of(device_, *part.kernel, part.key));
      if (!part.made->status.ok()) return part.made->status;
      anew = true;
    }
    return anew ? try_load() : refused;
  }

  std::vector<Lane*> verified_lanes() {
    std::vector<Lane*> lanes;
    for (Round& round : rounds_) {
      for (const std::unique_ptr<Lane>& lane : round.lanes) {
        if (lane->loaded != nullptr) lanes.push_back(lane.get());
      }
    }
    return lanes;
  }

  // ---- time

  Lane* fastest(const std::vector<Lane*>& lanes) {
    const PhaseTimer timer(&times_.time);
    clock_before_ = trial_->clock_mhz();
    std::vector<Runner> runners(lanes.size());
    for (std::size_t i = 0; i < runners.size(); ++i) runners[i].order = i;
    Race timing;
    timing.sample = [&](std::size_t index, int count, std::vector<double>* microseconds) {
      return trial_->time(*lanes[index]->loaded, count, microseconds);
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

  std::vector<ProgramAttempt> attempts() const {
    std::vector<ProgramAttempt> all;
    for (const Round& round : rounds_) {
      for (const std::unique_ptr<Lane>& lane : round.lanes) all.push_back(lane->attempt);
    }
    all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }

  std::string kernels_of(const Lane* winner) const {
    std::string keys;
    for (const Round& round : rounds_) {
      for (const std::unique_ptr<Lane>& lane : round.lanes) {
        if (lane.get() != winner) continue;
        for (const std::size_t part : lane->parts) keys += (keys.empty() ? "" : " ") + round.parts[part].key;
      }
    }
    return keys;
  }

  void keep(Lane* winner, TunedGraph* tuned) const {
    const ProgramAttempt& attempt = winner->attempt;
    tuned->program = winner->contender.plan.program;
    tuned->times = times_;
    tuned->attempts = attempts();
    cache::WinnerRow& row = tuned->winner;
    row.kernel = kernels_of(winner);
    row.candidate = to_text(tuned->program);
    row.median_us = attempt.median_us;
    row.spread_us = attempt.spread_us;
    row.clock_mhz = clock_before_;
    row.error = attempt.error;
    row.bound = attempt.bound;
    row.driver = device_.driver();
    row.evidence = graph_evidence_json(found_.report, tuned->attempts, times_, clock_before_, clock_after_);
    tuned->loaded = std::move(winner->loaded);
  }

  // Every outcome with its count and the first reason, then what the search dropped.
  Status no_candidate() const {
    if (!no_compiler_.ok()) return no_compiler_;
    std::map<std::string, std::pair<int, std::string>> outcomes;
    for (const ProgramAttempt& attempt : attempts()) {
      auto& [count, first] = outcomes[attempt.outcome];
      if (count++ == 0) first = attempt.program + " | " + attempt.threads + ": " + attempt.detail;
    }
    std::string message = "no program of this graph can be used on " + device_.spec().identity();
    for (const auto& [outcome, what] : outcomes)
      message += "; " + std::to_string(what.first) + " " + outcome + " (first " + what.second + ")";
    return {Code::kNoCandidate, message + "\n" + to_text(found_.report)};
  }

  void report(TunePhase phase) {
    if (!report_) return;
    shown_.phase = phase;
    shown_.seconds = watch_.seconds();
    report_(shown_);
  }

  Device& device_;
  cache::Store& store_;
  const GraphQuestion& question_;
  const TunePolicy policy_;
  const Effort effort_;
  const GraphProgressFn& report_;
  const Stopwatch watch_;
  GraphProgress shown_;
  PhaseTimes times_;
  SearchResult found_;
  std::vector<Round> rounds_;
  std::vector<ProgramAttempt> others_;  // ranked too low, or not proved
  std::unique_ptr<ProgramTrial> trial_;
  std::atomic<bool> any_verified_ = false;  // read by compile threads
  Status no_compiler_;
  double clock_before_ = 0, clock_after_ = 0;
};

}  // namespace

Status tune_graph(Device& device, cache::Store& store, const GraphQuestion& question, const TunePolicy& policy,
                  const GraphProgressFn& progress, TunedGraph* tuned) {
  return GraphMiss(device, store, question, policy, progress).run(tuned);
}

}  // namespace gqa

// misses.cc: see misses.h. The story of a miss, top down.
#include "runtime/session/misses.h"

#include <algorithm>
#include <cstdio>

#include "runtime/session/not_cached.h"
#include "runtime/session/telling.h"
#include "runtime/tuner/stopwatch.h"
#include "runtime/without_exceptions.h"
#include "runtime/workload/keys.h"

namespace gqa {
namespace {

// A row that a call may use: of today's versions, and tuned unless the call does not tune itself.
bool suits(const cache::WinnerRow& row, Tuning tuning) {
  return outdated(row).empty() && !(row.provisional && tuning == Tuning::kNow);
}

}  // namespace

Misses::Guard::Guard(Misses* misses) : misses_(misses) {
  const std::lock_guard lock(misses_->mutex_);
  ++misses_->guards_;
}

Misses::Guard::~Guard() {
  const std::lock_guard lock(misses_->mutex_);
  --misses_->guards_;
  misses_->changed_.notify_all();
}

// To tune, once no other thread does. Where the effort is cancelled first, there is none.
class Misses::TuningLock {
 public:
  TuningLock(Misses* misses, const Effort& effort) : misses_(misses) {
    std::unique_lock lock(misses_->mutex_);
    misses_->changed_.wait(lock, [&] { return !misses_->tuning_ || effort.cancelled(); });
    mine_ = !misses_->tuning_;
    misses_->tuning_ = true;
  }
  ~TuningLock() {
    if (!mine_) return;
    const std::lock_guard lock(misses_->mutex_);
    misses_->tuning_ = false;
    misses_->changed_.notify_all();
  }
  TuningLock(const TuningLock&) = delete;
  TuningLock& operator=(const TuningLock&) = delete;

 private:
  Misses* misses_;
  bool mine_;
};

Misses::Misses(Device& device, cache::Store& store, CompilePool& compile_pool, const SessionOptions& options)
    : device_(device),
      store_(store),
      compile_pool_(compile_pool),
      options_(options),
      budget_seconds_(options.policy.budget_seconds),
      arrivals_(device, store, compile_pool) {}

Misses::~Misses() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return guards_ == 0; });
}

Status Misses::may_begin(std::optional<void*> stream, const std::string& what) const {
  bool captured = false;
  if (Status status = device_.capturing(stream, &captured); !status.ok() || !captured) return status;
  return {Code::kCapturing, "a stream is being captured and no program for " + what +
                                " is loaded: run it, gqa_warm it or superoptimize it once before the capture begins"};
}

TunePolicy Misses::policy() const {
  TunePolicy policy = options_.policy;
  const double seconds = budget_seconds_;
  policy.budget_seconds = seconds > 0 ? seconds : TunePolicy().budget_seconds;
  return policy;
}

Status Misses::ready(Workload& workload, const ReadyRequest& request, ReadyResult* readied) {
  const Guard guard(this);
  if (Status status = may_begin(request.stream, workload.name()); !status.ok()) return status;
  TunePolicy policy = this->policy();
  const Tuning tuning = tuning_of(request.tuning);
  policy.guess = tuning == Tuning::kGuess;
  if (request.budget_seconds > 0) policy.budget_seconds = request.budget_seconds;
  const Miss miss = {
      workload, request, winner_key(device_, workload.signature()), Effort(policy.budget_seconds, &cancels_),
      policy,   tuning};
  std::unique_lock lock(mutex_);
  InFlight& flight = in_flight_[miss.key.text()];
  std::shared_ptr<const ReadyProgram> refused;  // another workload's, with this one's signature
  for (;;) {
    if (flight.running) {
      const Status status = wait_for_other(miss.effort, flight, lock);
      // Where the other was cancelled before this call began, or may not tune and this one may, it is tried again.
      const bool allowed = status.code() == Code::kNotCached && tuning != Tuning::kCachedOnly;
      const bool outlived = status.code() == Code::kCancelled && !miss.effort.cancelled();
      if (!status.ok() && !allowed && !outlived) return status;
    } else if (flight.ready == nullptr || flight.ready == refused ||
               (flight.ready->guessed && tuning == Tuning::kNow)) {
      return run_once(miss, flight, lock, readied);
    } else {
      const std::shared_ptr<const ReadyProgram> found = flight.ready;
      lock.unlock();
      if (!request.serves || request.serves(*found)) {
        readied->ready = found;
        readied->origin = Origin::kMemory;
        return {};
      }
      refused = found;
      lock.lock();
    }
  }
}

// A failure is everybody's who waited for it; the next call tries again.
Status Misses::wait_for_other(const Effort& effort, InFlight& flight, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t rounds = flight.rounds;
  changed_.wait(lock, [&] { return flight.rounds != rounds || effort.cancelled(); });
  return flight.rounds != rounds ? flight.last : effort.check();
}

void Misses::cancel() {
  ++cancels_;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

// Makes it ready outside the lock.
Status Misses::run_once(const Miss& miss, InFlight& flight, std::unique_lock<std::mutex>& lock, ReadyResult* readied) {
  flight.running = true;
  lock.unlock();
  const Status status = without_exceptions("making a program ready", [&] { return make_ready(miss, readied); });
  lock.lock();
  if (status.ok()) {
    if (flight.ready != nullptr && flight.ready->guessed) replaced_.push_back(flight.ready);
    flight.ready = readied->ready;
  }
  flight.last = status;
  flight.running = false;
  ++flight.rounds;
  changed_.notify_all();
  return status;
}

Status Misses::make_ready(const Miss& miss, ReadyResult* readied) {
  Status status;
  if (!from_cache(miss, readied, [&](const cache::WinnerRow& row) { return suits(row, miss.tuning); })) {
    if (status = miss.effort.check(); !status.ok()) {  // in a verification
    } else if (miss.tuning == Tuning::kCachedOnly) {
      status = not_cached(miss.key.signature, device_.spec(), store_.path());
    } else {
      status = miss.tuning == Tuning::kGuess ? tune_here(miss, readied) : tune_under_lease(miss, readied);
      // Memory may be short for a trial and suffice for the call: a guess that was verified before will do.
      const auto verified = [](const cache::WinnerRow& row) { return outdated(row).empty(); };
      if (status.code() == Code::kOutOfMemory && from_cache(miss, readied, verified)) status = {};
    }
  }
  for (const std::string& warning : store_.take_warnings()) options_.say(true, warning);
  return status;
}

// ---- what the cache holds

std::optional<Misses::Known> Misses::known(const std::string& signature) {
  const cache::WinnerKey key = winner_key(device_, signature);
  {
    const std::lock_guard lock(mutex_);
    const auto flight = in_flight_.find(key.text());
    if (flight != in_flight_.end() && flight->second.ready != nullptr) {
      const ReadyProgram& ready = *flight->second.ready;
      return Known{ready.winner, ready.guessed, ready.here};
    }
  }
  std::optional<Known> guess;  // where nothing better is cached
  for (cache::WinnerRow& row : store_.find_winners(key, device_.compiler())) {
    const bool guessed = row.provisional;
    if (!outdated(row).empty() || (guessed && guess)) continue;
    Known found{std::move(row), guessed, false};
    if (!guessed) return found;
    guess = std::move(found);
  }
  return guess;
}

// False if there is nothing that `suits`, or nothing that can be used: then a warning says why. What came from
// elsewhere is verified first.
bool Misses::from_cache(const Miss& miss, ReadyResult* readied, const cache::Suits& suits) {
  for (const cache::WinnerRow& winner : store_.find_winners(miss.key, device_.compiler())) {
    if (!suits(winner)) continue;
    auto ready = std::make_shared<ReadyProgram>();
    if (Status status = load(miss, winner, ready.get()); !status.ok()) {
      options_.say(true, "the cached winner for " + miss.workload.name() + " cannot be used: " + status.message());
      continue;
    }
    if (!ready->winner.elsewhere.empty()) {
      if (arrivals_.refused(ready->winner)) continue;
      const Status status = verify_arrival(miss, ready.get(), &readied->times);
      if (status.code() == Code::kCancelled) return false;
      if (!status.ok()) continue;
    }
    ready->guessed = winner.provisional && miss.tuning != Tuning::kNow;
    readied->ready = std::move(ready);
    readied->origin = Origin::kCache;
    return true;
  }
  return false;
}

Status Misses::load(const Miss& miss, const cache::WinnerRow& winner, ReadyProgram* ready) {
  Program program;
  if (Status status = miss.workload.program(winner.candidate, device_.spec(), &program); !status.ok()) return status;
  const std::vector<std::string> keys = winner.kernels();
  if (keys.size() != program.sources.size())
    return {Code::kInternal,
            "it needs " + std::to_string(program.sources.size()) + " kernels and names " + std::to_string(keys.size())};
  std::vector<Binary> binaries(keys.size());
  ready->winner = winner;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    std::optional<cache::KernelRow> row = store_.find_kernel(keys[at]);
    if (!row) return {Code::kInternal, "its kernel " + keys[at] + " is not there"};
    if (ready->winner.elsewhere.empty()) ready->winner.elsewhere = row->elsewhere;  // a winner is what it runs
    if (Status status = binary_of(std::move(*row), program.sources[at], &binaries[at]); !status.ok()) return status;
  }
  return device_.load(program, binaries, &ready->loaded);
}

// What was measured elsewhere is verified here, once, while nobody times. Told either way.
Status Misses::verify_arrival(const Miss& miss, ReadyProgram* ready, PhaseTimes* times) {
  const TuningLock tuning(this, miss.effort);
  if (Status status = miss.effort.check(); !status.ok()) return status;
  const std::string file = ready->winner.elsewhere, what = "the winner for " + miss.workload.name() + " from " + file;
  double seconds = 0;
  bool kept = false;
  Status status;
  {
    const PhaseTimer timer(&seconds);
    status = arrivals_.admit(miss.workload, miss.tuning != Tuning::kCachedOnly, miss.effort.restarted(), &ready->winner,
                             &ready->loaded, &kept);
  }
  times->verify += seconds;
  if (status.ok()) {
    char took[32];
    std::snprintf(took, sizeof took, "%.2f s", seconds);
    options_.say(
        false, "verified " + what + ", in " + took +
                   (kept ? "" : "; no file can be written that could remember it, so the next process does the same"));
  } else if (status.code() == Code::kNoCandidate) {
    options_.say(true, what + " failed its verification on this machine and is ignored: " + status.message());
  } else if (status.code() != Code::kCancelled) {
    options_.say(true, what + " cannot be verified on this machine and is not used: " + status.message());
  }
  return status;
}

// ---- tuning

// One process tunes; the others wait and then find what it kept. Where another process's winner cannot be used here
// either, this one tunes without the lease. What another raced while this one waited serves, provisional or not: a load
// that disturbed that race would disturb the next.
Status Misses::tune_under_lease(const Miss& miss, ReadyResult* readied) {
  const std::vector<cache::WinnerRow> known = store_.find_winners(miss.key, device_.compiler());
  const auto serves = [&](const cache::WinnerRow& row) {
    const auto same = [&](const cache::WinnerRow& before) {
      return before.id() == row.id() && before.created == row.created && before.median_us == row.median_us;
    };
    const bool raced_meanwhile =
        outdated(row).empty() && row.median_us > 0 && std::none_of(known.begin(), known.end(), same);
    return suits(row, miss.tuning) || raced_meanwhile;
  };
  const std::unique_ptr<cache::Lease> lease = store_.acquire(miss.key, serves, miss.effort.stop());
  if (Status status = miss.effort.check(); !status.ok()) return status;
  if (from_cache(miss, readied, serves)) return {};
  return tune_here(miss, readied);
}

Status Misses::tune_here(const Miss& miss, ReadyResult* readied) {
  const TuningLock tuning(this, miss.effort);
  if (Status status = miss.effort.check(); !status.ok()) return status;
  std::function<void(const std::string&)> tell;
  if (options_.log) tell = [this](const std::string& line) { options_.say(false, line); };
  const ProgressFn progress = telling(miss.workload.name(), miss.policy.budget_seconds, std::move(tell),
                                      miss.request.progress ? miss.request.progress : options_.progress);
  const Effort effort = miss.effort.restarted();  // others' tunings are not this one's budget
  Tuned tuned;
  Status status = tune(device_, compile_pool_, miss.workload, miss.policy, effort, progress, &tuned);
  if (!status.ok()) {
    if (status.code() != Code::kCancelled) options_.say(true, status.message());  // who cancels knows
    return status;
  }
  if (!miss.policy.guess) {
    const PhaseTimer timer(&tuned.times.persist);
    store_.put_winner(tuned.winner);
  }
  auto ready = std::make_shared<ReadyProgram>();
  ready->loaded = std::move(tuned.loaded);
  ready->winner = std::move(tuned.winner);
  ready->guessed = miss.policy.guess;
  ready->here = !miss.policy.guess;
  readied->ready = std::move(ready);
  readied->origin = Origin::kTuned;
  readied->times = tuned.times;
  readied->attempts = std::move(tuned.attempts);
  options_.say(false, outcome_line(miss.workload.name(), miss.policy.guess, *readied, tuned.disturbed));
  return {};
}

}  // namespace gqa

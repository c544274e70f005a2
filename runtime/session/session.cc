// session.cc: see session.h. The hit path is run(); the rest is the story of a miss, top down.
#include "runtime/session/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/session/not_cached.h"
#include "runtime/session/telling.h"
#include "runtime/tuner/model_error.h"
#include "runtime/tuner/stopwatch.h"
#include "runtime/without_exceptions.h"
#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"

namespace gqa {
namespace {

constexpr std::size_t kFirstSlots = 64;
constexpr const char *kMerging = "merging states", *kAppending = "appending to a cache";

bool needs_appender(const Call& call, const LoadedProgram& program) {
  return call.append != nullptr && !program.appends(call);
}

// The program of a call that appends and has no query.
struct NoAttention : LoadedProgram {
  Status run(const ProgramCall&) const override { return {}; }
};
const NoAttention kNoAttention;

double total(const PhaseTimes& times) {
  return times.search + times.compile + times.verify + times.time + times.persist;
}

Status not_loaded(const Signature& wanted) {
  return {Code::kNotCached,
          "no kernel for " + to_text(wanted) + " is loaded: call gqa_prepare with these tensors once"};
}

}  // namespace

bool heeds_load() {
  const char* given = std::getenv("GQA_IGNORE_LOAD");
  return given == nullptr || std::string_view(given) != "1";
}

// A thread on the miss path.
class Session::MissGuard {
 public:
  explicit MissGuard(Session* session) : session_(session) {
    const std::lock_guard lock(session_->mutex_);
    ++session_->misses_;
  }
  ~MissGuard() {
    const std::lock_guard lock(session_->mutex_);
    --session_->misses_;
    session_->changed_.notify_all();
  }
  MissGuard(const MissGuard&) = delete;
  MissGuard& operator=(const MissGuard&) = delete;

 private:
  Session* session_;
};

// To tune, once no other thread does. Where the effort is cancelled first, there is none.
class Session::TuningLock {
 public:
  TuningLock(Session* session, const Effort& effort) : session_(session) {
    std::unique_lock lock(session_->mutex_);
    session_->changed_.wait(lock, [&] { return !session_->tuning_ || effort.cancelled(); });
    mine_ = !session_->tuning_;
    session_->tuning_ = true;
  }
  ~TuningLock() {
    if (!mine_) return;
    const std::lock_guard lock(session_->mutex_);
    session_->tuning_ = false;
    session_->changed_.notify_all();
  }
  TuningLock(const TuningLock&) = delete;
  TuningLock& operator=(const TuningLock&) = delete;

 private:
  Session* session_;
  bool mine_;
};

Session::Session(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, SessionOptions options)
    : device_(std::move(device)),
      store_(std::move(store)),
      options_(std::move(options)),
      budget_seconds_(options_.policy.budget_seconds),
      compile_pool_(*device_, *store_, options_.policy.compile_threads),
      arrivals_(*device_, *store_, compile_pool_),
      merging_(*device_, finder(), "merges states", &Device::merge_kernel, &Device::load_merger),
      appending_(*device_, finder(), "appends to a cache", &Device::append_kernel, &Device::load_appender) {
  tables_.push_back(std::make_unique<ProgramTable>(kFirstSlots));
  table_.store(tables_.back().get(), std::memory_order_release);
  for (const std::string& warning : store_->take_warnings()) log(true, warning);
}

Session::~Session() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return misses_ == 0; });
}

// ---- a hit

// Not a guess, where the call is to be tuned; but a capture takes one rather than fail.
const LoadedProgram* Session::loaded(const Call& call, const Signature& wanted, std::optional<Tuning> tuning) const {
  if (call.out == nullptr) return &kNoAttention;
  const ProgramTable::Found found = table_.load(std::memory_order_acquire)->find(wanted);
  if (!found.guessed || tuning_of(tuning) != Tuning::kNow || captured(call.stream)) return found.program;
  return nullptr;
}

bool Session::captured(void* stream) const {
  bool captured = false;
  return device_->capturing(stream, &captured).ok() && captured;
}

Status Session::run(const Call& call, std::optional<Tuning> tuning) {
  const Signature wanted(call.problem);
  if (const LoadedProgram* program = loaded(call, wanted, tuning)) return launch(call, *program);
  return run_miss(wanted, call, tuning);
}

Status Session::run_ready(const Call& call, std::optional<Tuning> tuning) {
  const Signature wanted(call.problem);
  const LoadedProgram* program = loaded(call, wanted, tuning);
  if (program != nullptr && (!needs_appender(call, *program) || appending_.ready() != nullptr))
    return launch(call, *program);
  if (Status status = may_begin(call.stream, to_text(wanted)); !status.ok()) return status;
  return not_loaded(wanted);
}

// What is made at first use, for who is on a stream or on none. `what`: what it does, for messages.
template <typename Thing>
Status Session::make(FirstUse<Thing>& thing, std::optional<void*> stream, const char* what) {
  if (thing.ready() != nullptr) return {};
  const MissGuard guard(this);
  Status status = may_begin(stream, what);
  return status.ok() ? thing.make() : status;
}

// A call that appends does so once its program is there: a call that fails has changed no cache.
Status Session::launch(const Call& call, const LoadedProgram& program) {
  if (!needs_appender(call, program)) return program.run(call);
  Status status = make(appending_, call.stream, kAppending);
  return status.ok() ? appending_.ready()->run(call, program) : status;
}

Status Session::workspace_bytes(const Call& call, std::int64_t* bytes, std::optional<Tuning> tuning) const {
  const Signature wanted(call.problem);
  const LoadedProgram* program = loaded(call, wanted, tuning);
  if (program == nullptr) return not_loaded(wanted);
  const bool two_steps = needs_appender(call, *program);
  const Appender* appender = two_steps ? appending_.ready() : nullptr;
  if (two_steps && appender == nullptr) return not_loaded(wanted);
  *bytes = program->workspace_bytes(call.problem) + (appender == nullptr ? 0 : appender->workspace_bytes(call));
  return {};
}

Status Session::merge(const MergeCall& call) {
  Status status = make(merging_, call.stream, kMerging);
  return status.ok() ? merging_.ready()->run(call) : status;
}

// ---- a miss

Status Session::ready_to_append() { return make(appending_, std::nullopt, kAppending); }
Status Session::ready_to_merge() { return make(merging_, std::nullopt, kMerging); }

Status Session::may_begin(std::optional<void*> stream, const std::string& what) const {
  bool captured = false;
  if (Status status = device_->capturing(stream, &captured); !status.ok() || !captured) return status;
  return {Code::kCapturing, "a stream is being captured and no program for " + what +
                                " is loaded: run it, gqa_warm it or superoptimize it once before the capture begins"};
}

Status Session::run_miss(const Signature& wanted, const Call& call, std::optional<Tuning> tuning) {
  const MissGuard guard(this);
  ReadyResult readied;
  if (Status status = ready_problem(wanted, call.stream, tuning, &readied); !status.ok()) return status;
  return launch(call, *readied.ready->loaded);
}

Status Session::ready(const Problem& problem, ReadyResult* readied, std::optional<Tuning> tuning) {
  if (Status status = check(problem); !status.ok()) return status;
  const MissGuard guard(this);
  ReadyResult unread;
  return ready_problem(Signature(problem), std::nullopt, tuning, readied != nullptr ? readied : &unread);
}

TunePolicy Session::policy() const {
  TunePolicy policy = options_.policy;
  const double seconds = budget_seconds_;
  policy.budget_seconds = seconds > 0 ? seconds : TunePolicy().budget_seconds;
  return policy;
}

Status Session::ready_problem(const Signature& wanted, std::optional<void*> stream, std::optional<Tuning> tuning,
                              ReadyResult* readied) {
  AttentionWorkload workload(wanted);
  ReadyRequest request;
  request.tuning = tuning;
  request.stream = stream;
  Status status = ready(workload, request, readied);
  if (status.ok()) publish(wanted, readied->ready);
  return status;
}

Status Session::ready(Workload& workload, const ReadyRequest& request, ReadyResult* readied) {
  const MissGuard guard(this);
  if (Status status = may_begin(request.stream, workload.name()); !status.ok()) return status;
  TunePolicy policy = this->policy();
  const Tuning tuning = tuning_of(request.tuning);
  policy.guess = tuning == Tuning::kGuess;
  if (request.budget_seconds > 0) policy.budget_seconds = request.budget_seconds;
  const Miss miss = {
      workload, request, winner_key(*device_, workload.signature()), Effort(policy.budget_seconds, &cancels_),
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
Status Session::wait_for_other(const Effort& effort, InFlight& flight, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t rounds = flight.rounds;
  changed_.wait(lock, [&] { return flight.rounds != rounds || effort.cancelled(); });
  return flight.rounds != rounds ? flight.last : effort.check();
}

void Session::cancel() {
  ++cancels_;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

// Makes it ready outside the lock.
Status Session::run_once(const Miss& miss, InFlight& flight, std::unique_lock<std::mutex>& lock, ReadyResult* readied) {
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

// The problem's hits find it from now on.
void Session::publish(const Signature& wanted, const std::shared_ptr<const ReadyProgram>& ready) {
  const std::lock_guard lock(mutex_);
  const ProgramTable::Found found = tables_.back()->find(wanted);
  if (found.program != nullptr) {
    if (found.guessed && !ready->guessed) tables_.back()->replace(wanted, ready->loaded.get());
    return;
  }
  if (tables_.back()->full()) {
    tables_.push_back(tables_.back()->grown());
    table_.store(tables_.back().get(), std::memory_order_release);
  }
  tables_.back()->add(wanted, ready->loaded.get(), ready->guessed);
}

Status Session::make_ready(const Miss& miss, ReadyResult* readied) {
  Status status;
  if (!from_cache(miss, readied, [&](const cache::WinnerRow& row) { return suits(row, miss.tuning); })) {
    if (status = miss.effort.check(); !status.ok()) {  // in a verification
    } else if (miss.tuning == Tuning::kCachedOnly) {
      status = not_cached(miss.key.signature, device_->spec(), store_->path());
    } else {
      status = miss.tuning == Tuning::kGuess ? tune_here(miss, readied) : tune_under_lease(miss, readied);
      // Memory may be short for a trial and suffice for the call: a guess that was verified before will do.
      const auto verified = [](const cache::WinnerRow& row) { return outdated(row).empty(); };
      if (status.code() == Code::kOutOfMemory && from_cache(miss, readied, verified)) status = {};
    }
  }
  for (const std::string& warning : store_->take_warnings()) log(true, warning);
  return status;
}

// ---- what the cache holds

std::optional<Session::Known> Session::known(const Problem& problem) {
  const cache::WinnerKey key = winner_key(*device_, AttentionWorkload(Signature(problem)).signature());
  {
    const std::lock_guard lock(mutex_);
    const auto flight = in_flight_.find(key.text());
    if (flight != in_flight_.end() && flight->second.ready != nullptr) {
      const ReadyProgram& ready = *flight->second.ready;
      return Known{ready.winner, ready.guessed, ready.here};
    }
  }
  std::optional<Known> guess;  // where nothing better is cached
  for (cache::WinnerRow& row : store_->find_winners(key, device_->compiler())) {
    const bool guessed = row.provisional;
    if (!outdated(row).empty() || (guessed && guess)) continue;
    Known found{std::move(row), guessed, false};
    if (!guessed) return found;
    guess = std::move(found);
  }
  return guess;
}

// A row that a call may use: of today's versions, and tuned unless the call does not tune itself.
bool Session::suits(const cache::WinnerRow& row, Tuning tuning) const {
  return outdated(row).empty() && !(row.provisional && tuning == Tuning::kNow);
}

// False if there is nothing that `suits`, or nothing that can be used: then a warning says why. What came from
// elsewhere is verified first.
bool Session::from_cache(const Miss& miss, ReadyResult* readied, const cache::Suits& suits) {
  for (const cache::WinnerRow& winner : store_->find_winners(miss.key, device_->compiler())) {
    if (!suits(winner)) continue;
    auto ready = std::make_shared<ReadyProgram>();
    if (Status status = load(miss, winner, ready.get()); !status.ok()) {
      log(true, "the cached winner for " + miss.workload.name() + " cannot be used: " + status.message());
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

Status Session::load(const Miss& miss, const cache::WinnerRow& winner, ReadyProgram* ready) {
  Program program;
  if (Status status = miss.workload.program(winner.candidate, device_->spec(), &program); !status.ok()) return status;
  const std::vector<std::string> keys = winner.kernels();
  if (keys.size() != program.sources.size())
    return {Code::kInternal,
            "it needs " + std::to_string(program.sources.size()) + " kernels and names " + std::to_string(keys.size())};
  std::vector<Binary> binaries(keys.size());
  ready->winner = winner;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    std::optional<cache::KernelRow> row = store_->find_kernel(keys[at]);
    if (!row) return {Code::kInternal, "its kernel " + keys[at] + " is not there"};
    if (ready->winner.elsewhere.empty()) ready->winner.elsewhere = row->elsewhere;  // a winner is what it runs
    if (Status status = binary_of(std::move(*row), program.sources[at], &binaries[at]); !status.ok()) return status;
  }
  return device_->load(program, binaries, &ready->loaded);
}

// What was measured elsewhere is verified here, once, while nobody times. Told either way.
Status Session::verify_arrival(const Miss& miss, ReadyProgram* ready, PhaseTimes* times) {
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
    log(false, "verified " + what + ", in " + took +
                   (kept ? "" : "; no file can be written that could remember it, so the next process does the same"));
  } else if (status.code() == Code::kNoCandidate) {
    log(true, what + " failed its verification on this machine and is ignored: " + status.message());
  } else if (status.code() != Code::kCancelled) {
    log(true, what + " cannot be verified on this machine and is not used: " + status.message());
  }
  return status;
}

// ---- tuning

// One process tunes; the others wait and then find what it kept. Where another process's winner cannot be used here
// either, this one tunes without the lease. What another raced while this one waited serves, provisional or not: a load
// that disturbed that race would disturb the next.
Status Session::tune_under_lease(const Miss& miss, ReadyResult* readied) {
  const std::vector<cache::WinnerRow> known = store_->find_winners(miss.key, device_->compiler());
  const auto serves = [&](const cache::WinnerRow& row) {
    const auto same = [&](const cache::WinnerRow& before) {
      return before.id() == row.id() && before.created == row.created && before.median_us == row.median_us;
    };
    const bool raced_meanwhile =
        outdated(row).empty() && row.median_us > 0 && std::none_of(known.begin(), known.end(), same);
    return suits(row, miss.tuning) || raced_meanwhile;
  };
  const std::unique_ptr<cache::Lease> lease = store_->acquire(miss.key, serves, miss.effort.stop());
  if (Status status = miss.effort.check(); !status.ok()) return status;
  if (from_cache(miss, readied, serves)) return {};
  return tune_here(miss, readied);
}

Status Session::tune_here(const Miss& miss, ReadyResult* readied) {
  const TuningLock tuning(this, miss.effort);
  if (Status status = miss.effort.check(); !status.ok()) return status;
  std::function<void(const std::string&)> tell;
  if (options_.log) tell = [this](const std::string& line) { log(false, line); };
  const ProgressFn progress = telling(miss.workload.name(), miss.policy.budget_seconds, std::move(tell),
                                      miss.request.progress ? miss.request.progress : options_.progress);
  const Effort effort = miss.effort.restarted();  // others' tunings are not this one's budget
  Tuned tuned;
  Status status = tune(*device_, compile_pool_, miss.workload, miss.policy, effort, progress, &tuned);
  if (!status.ok()) {
    if (status.code() != Code::kCancelled) log(true, status.message());  // who cancels knows
    return status;
  }
  if (!miss.policy.guess) {
    const PhaseTimer timer(&tuned.times.persist);
    store_->put_winner(tuned.winner);
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
  log_tuned(miss, *readied, tuned.disturbed);
  return {};
}

// ---- telling

void Session::log_tuned(const Miss& miss, const ReadyResult& readied, const std::string& disturbed) const {
  const double microseconds = readied.ready->winner.median_us;
  char time[64];
  std::snprintf(time, sizeof time, miss.policy.guess ? "untimed, after %.2f s" : "%.1f us, after %.2f s",
                miss.policy.guess ? total(readied.times) : microseconds, total(readied.times));
  std::string chosen;
  for (const Attempt& attempt : readied.attempts) {
    if (attempt.outcome == "winner") chosen = attempt.name;
  }
  const std::string model = to_text(model_error(readied.attempts));
  log(false, (miss.policy.guess ? "guessed " : "tuned ") + miss.workload.name() + ": " + chosen + ", " + time +
                 (model.empty() ? "" : "; cost model: " + model) +
                 (readied.ready->winner.provisional && !disturbed.empty()
                      ? "; provisional, the next process races again: " + disturbed
                      : ""));
}

void Session::log(bool warning, const std::string& message) const {
  if (options_.log) options_.log(warning, message);
}

}  // namespace gqa

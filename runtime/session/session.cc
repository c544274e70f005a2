// session.cc: see session.h. The hit path is run() and find(); the rest is the story of a miss, top down.
#include "runtime/session/session.h"

#include <chrono>
#include <cstdio>

#include "runtime/session/table.h"
#include "runtime/tuner/model_error.h"
#include "runtime/without_exceptions.h"
#include "search/families/space.h"

namespace gqa {
namespace {

constexpr std::size_t kFirstSlots = 64;

std::string microseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", value);
  return text;
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f s", value);
  return text;
}

Status capturing(const Problem& wanted) {
  return {Code::kCapturing, "the stream is being captured and no kernel for " + to_text(wanted) +
                                " is loaded: run or gqa_warm this shape once before the capture begins"};
}

double total(const PhaseTimes& times) {
  return times.search + times.compile + times.verify + times.time + times.persist;
}

}  // namespace

// What threads that miss on one signature share; under Session::mutex_.
struct Session::Entry {
  Problem signature;
  bool running = false;      // a thread is making it ready
  std::uint64_t rounds = 0;  // finished, well or not
  Status last;               // how the last one ended
};

// A thread on the miss path.
class Session::Visit {
 public:
  explicit Visit(Session* session) : session_(session) {
    const std::lock_guard lock(session_->mutex_);
    ++session_->visits_;
  }
  ~Visit() {
    const std::lock_guard lock(session_->mutex_);
    --session_->visits_;
    session_->changed_.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Session* session_;
};

Session::Session(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, SessionOptions options)
    : device_(std::move(device)), store_(std::move(store)), options_(std::move(options)) {
  tables_.push_back(std::make_unique<Table>(kFirstSlots));
  table_.store(tables_.back().get(), std::memory_order_release);
  log_store_warnings();
}

Session::~Session() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return visits_ == 0; });
}

// ---- a hit

Status Session::run(const Call& call) {
  const Problem wanted = signature(call.problem);
  if (const Kernel* kernel = find(wanted)) return kernel->launch(call);
  return run_miss(wanted, call);
}

Status Session::run_ready(const Call& call) {
  const Problem wanted = signature(call.problem);
  if (const Kernel* kernel = find(wanted)) return kernel->launch(call);
  if (device_->capturing(call.stream)) return capturing(wanted);
  return {Code::kNotCached,
          "no kernel for " + to_text(wanted) + " is loaded: call gqa_prepare with these tensors once"};
}

const Kernel* Session::find(const Problem& wanted) const {
  return table_.load(std::memory_order_acquire)->find(wanted);
}

// ---- a miss

Status Session::run_miss(const Problem& wanted, const Call& call) {
  const Visit visit(this);
  const Kernel* kernel = nullptr;
  if (Status status = miss(wanted, call.stream, &kernel, nullptr); !status.ok()) return status;
  return kernel->launch(call);
}

Status Session::ready(const Problem& problem, Readied* readied) {
  if (Status status = check(problem); !status.ok()) return status;
  const Visit visit(this);
  const Problem wanted = signature(problem);
  const Kernel* kernel = find(wanted);
  if (kernel == nullptr) return miss(wanted, nullptr, &kernel, readied);
  if (readied != nullptr) readied->from_memory = true;
  return {};
}

Status Session::miss(const Problem& wanted, void* stream, const Kernel** kernel, Readied* readied) {
  if (device_->capturing(stream)) return capturing(wanted);
  const Effort effort(options_.policy.budget_seconds, &cancels_);
  std::unique_lock lock(mutex_);
  Entry& entry = entry_of(wanted);
  if ((*kernel = find(wanted)) != nullptr) {
    if (readied != nullptr) readied->from_memory = true;
    return {};
  }
  if (entry.running) {
    if (readied != nullptr) readied->from_memory = true;
    const Status status = wait_for_other(wanted, entry, lock, effort, kernel);
    if (status.code() != Code::kCancelled || effort.cancelled()) return status;
    lock.unlock();
    return miss(wanted, stream, kernel, readied);  // the other was cancelled before this call began
  }
  entry.running = true;
  lock.unlock();
  std::unique_ptr<Kernel> made;
  const Status status =
      without_exceptions("making a kernel ready", [&] { return make_ready(wanted, effort, &made, readied); });
  lock.lock();
  if (status.ok()) *kernel = publish(wanted, std::move(made));
  entry.last = status;
  entry.running = false;
  ++entry.rounds;
  changed_.notify_all();
  return status;
}

// A failure is everybody's who waited for it; the next call tries again.
Status Session::wait_for_other(const Problem& wanted, Entry& entry, std::unique_lock<std::mutex>& lock,
                               const Effort& effort, const Kernel** kernel) {
  const std::uint64_t rounds = entry.rounds;
  changed_.wait(lock, [&] { return entry.rounds != rounds || effort.cancelled(); });
  *kernel = find(wanted);
  if (*kernel == nullptr && effort.cancelled()) return effort.check();
  return *kernel != nullptr ? Status() : entry.last;
}

Session::Entry& Session::entry_of(const Problem& wanted) {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->signature == wanted) return *entry;
  }
  entries_.push_back(std::make_unique<Entry>());
  entries_.back()->signature = wanted;
  return *entries_.back();
}

const Kernel* Session::publish(const Problem& wanted, std::unique_ptr<Kernel> kernel) {
  kernels_.push_back(std::move(kernel));
  if (tables_.back()->full()) {
    tables_.push_back(tables_.back()->grown());
    table_.store(tables_.back().get(), std::memory_order_release);
  }
  tables_.back()->add(wanted, kernels_.back().get());
  return kernels_.back().get();
}

Status Session::make_ready(const Problem& wanted, const Effort& effort, std::unique_ptr<Kernel>* kernel,
                           Readied* readied) {
  *kernel = from_cache(wanted, readied);
  Status status;
  if (*kernel == nullptr && options_.tuning == Tuning::kCachedOnly) {
    status = {Code::kNotCached, "the cache holds no kernel for " + to_text(wanted) + " on " +
                                    device_->spec().identity() +
                                    " and tuning is off: warm this shape with gqa-cache warm, or allow tuning"};
  } else if (*kernel == nullptr) {
    status = options_.tuning == Tuning::kGuess ? tune_here(wanted, effort, kernel, readied)
                                               : tune_under_lease(wanted, effort, kernel, readied);
  }
  log_store_warnings();
  return status;
}

// ---- what the cache holds

// Null if there is nothing, or nothing that can be used: then a warning says why.
std::unique_ptr<Kernel> Session::from_cache(const Problem& wanted, Readied* readied) {
  const std::optional<cache::WinnerRow> winner = store_->find_winner(winner_key(*device_, wanted));
  if (!winner) return nullptr;
  Candidate candidate;
  std::string problem;
  std::unique_ptr<Kernel> kernel;
  if (Status status = parse(winner->candidate, &candidate); !status.ok()) {
    problem = status.message();
  } else if (std::string reason = reject_reason(wanted, candidate, device_->spec()); !reason.empty()) {
    problem = reason;
  } else if (std::optional<cache::KernelRow> row = store_->find_kernel(winner->kernel); !row) {
    problem = "its kernel " + winner->kernel + " is not there";
  } else if (Status loaded = device_->load(wanted, candidate, binary_of(std::move(*row)), &kernel); !loaded.ok()) {
    problem = loaded.message();
    kernel = nullptr;
  }
  if (kernel == nullptr) {
    log(true, "the cached winner for " + to_text(wanted) + " cannot be used: " + problem);
    return nullptr;
  }
  if (readied != nullptr) {
    readied->from_cache = true;
    readied->candidate = candidate;
    readied->median_us = winner->median_us;
    readied->error = winner->error;
    readied->bound = winner->bound;
  }
  return kernel;
}

// ---- tuning

// One process tunes; the others wait and then find what it kept. Where another process's winner cannot be used here
// either, this one tunes without the lease.
Status Session::tune_under_lease(const Problem& wanted, const Effort& effort, std::unique_ptr<Kernel>* kernel,
                                 Readied* readied) {
  const std::unique_ptr<cache::Lease> lease = store_->acquire(winner_key(*device_, wanted), effort.stop());
  if (effort.cancelled()) return effort.check();
  *kernel = from_cache(wanted, readied);
  if (*kernel != nullptr) return {};
  return tune_here(wanted, effort, kernel, readied);
}

Status Session::tune_here(const Problem& wanted, const Effort& effort, std::unique_ptr<Kernel>* kernel,
                          Readied* readied) {
  const std::unique_lock turn = tuning_turn(effort);
  if (!turn.owns_lock()) return effort.check();
  const Effort own = effort.restarted();
  TunePolicy policy = options_.policy;
  policy.guess = options_.tuning == Tuning::kGuess;
  policy.effort = &own;
  policy.background = &background_;
  Tuned tuned;
  if (Status status = tune(*device_, *store_, wanted, policy, options_.progress, &tuned); !status.ok()) {
    if (status.code() != Code::kCancelled) log(true, status.message());  // who cancels knows
    return status;
  }
  if (!policy.guess) keep(&tuned);
  const std::string model = to_text(model_error(tuned.attempts));
  log(false, (policy.guess ? "guessed " : "tuned ") + to_text(wanted) + ": " + to_text(tuned.candidate) + ", " +
                 (policy.guess ? "untimed" : microseconds(tuned.winner.median_us)) + ", after " +
                 seconds(total(tuned.times)) + (model.empty() ? "" : "; cost model: " + model));
  *kernel = std::move(tuned.kernel);
  if (readied != nullptr) {
    readied->candidate = tuned.candidate;
    readied->median_us = tuned.winner.median_us;
    readied->error = tuned.winner.error;
    readied->bound = tuned.winner.bound;
    readied->times = tuned.times;
    readied->attempts = std::move(tuned.attempts);
  }
  return {};
}

void Session::keep(Tuned* tuned) {
  const auto start = std::chrono::steady_clock::now();
  store_->put_winner(tuned->winner);
  tuned->times.persist = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- cancelling

void Session::cancel() {
  {
    const std::lock_guard lock(mutex_);  // or one that is about to wait would not hear of it
    ++cancels_;
  }
  changed_.notify_all();
}

std::unique_lock<std::timed_mutex> Session::tuning_turn(const Effort& effort) {
  std::unique_lock turn(tuning_mutex_, std::defer_lock);
  while (!effort.cancelled() && !turn.try_lock_for(kAskEvery)) {
  }
  return turn;
}

// ---- telling

void Session::log_store_warnings() const {
  for (const std::string& warning : store_->take_warnings()) log(true, warning);
}

void Session::log(bool warning, const std::string& message) const {
  if (options_.log) options_.log(warning, message);
}

}  // namespace gqa

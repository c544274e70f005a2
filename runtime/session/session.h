// session.h: the story of a call.
// Owns: one device, one store, the programs that are ready, and who tunes what: call -> problem -> look-up -> (miss)
// cache -> tune -> keep -> launch. The same for attention and for graphs.
// Never: checks tensors (args.h does) or knows how a device works.
// Threads: run() from many threads at once. A hit takes no lock. Two threads that miss on one workload tune once: the
// second waits. Two processes: the cache's lease.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/append.h"
#include "runtime/device.h"
#include "runtime/merge_states.h"
#include "runtime/session/arrivals.h"
#include "runtime/session/first_use.h"
#include "runtime/session/table.h"
#include "runtime/tuner/tuner.h"
#include "runtime/tuning.h"
#include "runtime/workload/workload.h"

namespace gqa {

// TunePolicy::heed_load where nothing else is said: false if $GQA_IGNORE_LOAD is 1.
bool heeds_load();

struct SessionOptions {
  Tuning tuning = Tuning::kNow;
  TunePolicy policy;
  std::function<void(bool warning, const std::string&)> log;  // may be empty
  ProgressFn progress;                                        // may be empty
};

// A workload's program, loaded, with the row that it is kept as.
struct ReadyProgram {
  std::unique_ptr<LoadedProgram> loaded;
  cache::WinnerRow winner;
  bool guessed = false;  // nobody has timed it, and nobody has asked for that: who does tunes
  bool here = false;     // this process measured it
};

// How a workload came to be ready.
enum class Origin { kTuned, kCache, kMemory };
struct ReadyResult {
  std::shared_ptr<const ReadyProgram> ready;
  Origin origin = Origin::kTuned;
  PhaseTimes times;
  std::vector<Attempt> attempts;  // empty if it came from memory or cache
};

// How to make a workload ready, where not as the session's options say.
struct ReadyRequest {
  std::optional<Tuning> tuning;  // none: the session's
  double budget_seconds = 0;     // 0: the session's
  ProgressFn progress;           // empty: the session's
  std::optional<void*> stream;   // that the call is on; none: nothing will run
  // Whether a program that another call made, of a workload with this one's signature, is this workload's too.
  std::function<bool(const ReadyProgram&)> serves;
};

class Session {
 public:
  Session(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, SessionOptions options);
  ~Session();  // waits for threads that are tuning
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The hot path: finds the signature's program and launches it; a miss is readied first. A call without `out` attends
  // to nothing: it appends alone, here and in the next two. tuning: none: the session's.
  Status run(const Call& call, std::optional<Tuning> tuning = {});
  // The same, but a miss fails at once, with kNotCached: ready() makes the signature ready.
  Status run_ready(const Call& call, std::optional<Tuning> tuning = {});
  // The device memory that run_ready() of such a call takes beyond its tensors; where it would tune, kNotCached.
  Status workspace_bytes(const Call& call, std::int64_t* bytes, std::optional<Tuning> tuning = {}) const;

  // Makes a problem's signature, or any workload, ready without running anything. With Tuning::kGuess what was compiled
  // is kept, the untimed choice is not: it must not shadow a winner that somebody tunes later. Here it answers until a
  // call or a request whose tuning is kNow comes, which tunes.
  Status ready(const Problem& problem, ReadyResult* readied = nullptr, std::optional<Tuning> tuning = {});
  Status ready(Workload& workload, const ReadyRequest& request, ReadyResult* readied);

  // What is known of a problem's program, which is not made ready by it; none: nothing.
  struct Known {
    cache::WinnerRow winner;
    bool guessed, here;  // as ReadyProgram's
  };
  std::optional<Known> known(const Problem& problem);

  // Merges states; what does it is made at the first call, or by ready_to_merge().
  Status merge(const MergeCall& call);
  Status ready_to_merge();
  // The same of what appends to caches.
  Status ready_to_append();

  // Says something to the caller's log.
  void warn(const std::string& message) const { log(true, message); }

  // Ends every miss in progress soon, with kCancelled. Later calls are unaffected.
  void cancel();

  // For the caller's own work on this session: cancel() ends it, too.
  Effort effort(double budget_seconds) const { return Effort(budget_seconds, &cancels_); }
  TunePolicy policy() const;
  void set_budget(double seconds) { budget_seconds_ = seconds; }  // of later misses; 0: the default

  Device& device() { return *device_; }
  cache::Store& store() { return *store_; }

 private:
  class MissGuard;
  class TuningLock;
  // What threads that miss on one workload share; under mutex_.
  struct InFlight {
    bool running = false;      // a thread is making it ready
    std::uint64_t rounds = 0;  // finished, well or not
    Status last;               // how the last one ended
    std::shared_ptr<const ReadyProgram> ready;
  };
  // A workload on its way.
  struct Miss {
    Workload& workload;
    const ReadyRequest& request;
    cache::WinnerKey key;
    Effort effort;
    TunePolicy policy;
    Tuning tuning;
  };
  Tuning tuning_of(std::optional<Tuning> asked) const { return asked.value_or(options_.tuning); }
  const LoadedProgram* loaded(const Call& call, const Signature& signature, std::optional<Tuning> tuning) const;
  bool captured(void* stream) const;
  template <typename Thing>
  Status make(FirstUse<Thing>& thing, std::optional<void*> stream, const char* what);
  Status launch(const Call& call, const LoadedProgram& program);
  KernelFinder finder() const { return {*device_, compile_pool_, options_.tuning == Tuning::kCachedOnly}; }
  Status run_miss(const Signature& signature, const Call& call, std::optional<Tuning> tuning);
  Status ready_problem(const Signature& signature, std::optional<void*> stream, std::optional<Tuning> tuning,
                       ReadyResult* readied);
  Status may_begin(std::optional<void*> stream, const std::string& what) const;
  Status wait_for_other(const Effort& effort, InFlight& flight, std::unique_lock<std::mutex>& lock);
  Status run_once(const Miss& miss, InFlight& flight, std::unique_lock<std::mutex>& lock, ReadyResult* readied);
  Status make_ready(const Miss& miss, ReadyResult* readied);
  bool suits(const cache::WinnerRow& row, Tuning tuning) const;
  bool from_cache(const Miss& miss, ReadyResult* readied, const cache::Suits& suits);
  Status load(const Miss& miss, const cache::WinnerRow& winner, ReadyProgram* ready);
  Status verify_arrival(const Miss& miss, ReadyProgram* ready, PhaseTimes* times);
  Status tune_under_lease(const Miss& miss, ReadyResult* readied);
  Status tune_here(const Miss& miss, ReadyResult* readied);
  void publish(const Signature& signature, const std::shared_ptr<const ReadyProgram>& ready);
  void log(bool warning, const std::string& message) const;
  void log_tuned(const Miss& miss, const ReadyResult& readied, const std::string& disturbed) const;

  std::unique_ptr<Device> device_;
  std::unique_ptr<cache::Store> store_;
  SessionOptions options_;
  std::atomic<double> budget_seconds_;
  CompilePool compile_pool_;
  Arrivals arrivals_;
  FirstUse<StateMerger> merging_;
  FirstUse<Appender> appending_;
  std::atomic<std::uint64_t> cancels_ = 0;
  std::atomic<const ProgramTable*> table_;             // read without a lock; a full one is replaced, the old ones stay
  std::mutex mutex_;                                   // guards what follows; never held while tuning
  std::condition_variable changed_;                    // one in flight ended, a tuning, or a miss
  bool tuning_ = false;                                // one at a time: timings must not disturb each other
  std::vector<std::unique_ptr<ProgramTable>> tables_;  // the last is the current one
  std::map<std::string, InFlight> in_flight_;          // by the key's text; programs that are ready stay
  std::vector<std::shared_ptr<const ReadyProgram>> replaced_;  // guesses that calls and captures may still run
  int misses_ = 0;  // threads on the miss path: the destructor waits for them
};

}  // namespace gqa

// misses.h: how a workload's program becomes ready: it is in memory, in the cache, or it is tuned.
// Owns: what is on its way and what is ready, by key; that two threads which miss on one workload tune once; the one
// tuning at a time; the cache's lease; that what came from elsewhere is verified first.
// Never: knows a call, or runs a program that is ready: session.h does.
// Threads: any number. Guard counts those that are on the way; the destructor waits for them. Two processes: the
// cache's lease.
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
#include "runtime/device.h"
#include "runtime/session/arrivals.h"
#include "runtime/session/options.h"
#include "runtime/tuner/tuner.h"
#include "runtime/tuning.h"
#include "runtime/workload/workload.h"

namespace gqa {

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

class Misses {
 public:
  // All must outlive it.
  Misses(Device& device, cache::Store& store, CompilePool& compile_pool, const SessionOptions& options);
  ~Misses();  // waits for threads that are on the way
  Misses(const Misses&) = delete;
  Misses& operator=(const Misses&) = delete;

  // A thread on the way.
  class Guard {
   public:
    explicit Guard(Misses* misses);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Misses* misses_;
  };

  // Without a kCapturing: nothing may be compiled or loaded for this stream's sake now. `what`: for the message.
  Status may_begin(std::optional<void*> stream, const std::string& what) const;
  Status ready(Workload& workload, const ReadyRequest& request, ReadyResult* readied);

  // What is known of a workload's program, which is not made ready by it; none: nothing.
  struct Known {
    cache::WinnerRow winner;
    bool guessed, here;  // as ReadyProgram's
  };
  std::optional<Known> known(const std::string& signature);

  void cancel();  // those in progress
  Effort effort(double budget_seconds) const { return Effort(budget_seconds, &cancels_); }
  TunePolicy policy() const;
  void set_budget(double seconds) { budget_seconds_ = seconds; }
  Tuning tuning_of(std::optional<Tuning> asked) const { return asked.value_or(options_.tuning); }

 private:
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
  Status wait_for_other(const Effort& effort, InFlight& flight, std::unique_lock<std::mutex>& lock);
  Status run_once(const Miss& miss, InFlight& flight, std::unique_lock<std::mutex>& lock, ReadyResult* readied);
  Status make_ready(const Miss& miss, ReadyResult* readied);
  bool from_cache(const Miss& miss, ReadyResult* readied, const cache::Suits& suits);
  Status load(const Miss& miss, const cache::WinnerRow& winner, ReadyProgram* ready);
  Status verify_arrival(const Miss& miss, ReadyProgram* ready, PhaseTimes* times);
  Status tune_under_lease(const Miss& miss, ReadyResult* readied);
  Status tune_here(const Miss& miss, ReadyResult* readied);

  Device& device_;
  cache::Store& store_;
  CompilePool& compile_pool_;
  const SessionOptions& options_;
  std::atomic<double> budget_seconds_;
  Arrivals arrivals_;
  std::atomic<std::uint64_t> cancels_ = 0;
  std::mutex mutex_;                                           // guards what follows; never held while tuning
  std::condition_variable changed_;                            // one in flight ended, a tuning, or a guard
  bool tuning_ = false;                                        // one at a time: timings must not disturb each other
  std::map<std::string, InFlight> in_flight_;                  // by the key's text; programs that are ready stay
  std::vector<std::shared_ptr<const ReadyProgram>> replaced_;  // guesses that calls and captures may still run
  int guards_ = 0;
};

}  // namespace gqa

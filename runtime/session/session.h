// session.h: the story of a call.
// Owns: the map from signature to loaded kernel, one device, one store, and who tunes what: call -> problem -> look-up
// -> (miss) cache -> tune -> keep -> launch.
// Never: checks tensors (args.h does) or knows how a device works.
// Threads: run() from many threads at once. A hit takes no lock. Two threads that miss on one signature tune once: the
// second waits. Two processes: the cache's lease.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/effort.h"
#include "runtime/tuner/tuner.h"
#include "runtime/tuner/workshop.h"

namespace gqa {

enum class Tuning { kNow, kGuess, kCachedOnly };

struct SessionOptions {
  Tuning tuning = Tuning::kNow;
  TunePolicy policy;
  std::function<void(bool warning, const std::string&)> log;  // may be empty
  ProgressFn progress;                                        // may be empty
};

// How a signature came to be ready: what `gqa-cache warm` and `tools/demo` print.
struct Readied {
  bool from_memory = false, from_cache = false;
  Candidate candidate;
  double median_us = 0;
  double error = 0, bound = 0;
  PhaseTimes times;
  std::vector<Attempt> attempts;  // empty if it came from memory or cache
};

class Session {
 public:
  Session(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, SessionOptions options);
  ~Session();  // waits for threads that are tuning
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The hot path: finds the signature's kernel and launches it; a miss is readied first.
  Status run(const Call& call);
  // The same, but a miss fails at once, with kNotCached: ready() makes the signature ready.
  Status run_ready(const Call& call);

  // Makes a problem's signature ready without running anything. With Tuning::kGuess what was compiled is kept, the
  // untimed choice is not: it must not shadow a winner that somebody tunes later.
  Status ready(const Problem& problem, Readied* readied = nullptr);

  Device& device() { return *device_; }
  cache::Store& store() { return *store_; }

  // Ends every miss in progress, here and in graph_session.h, with kCancelled; later calls are as ever. From any
  // thread.
  void cancel();
  const std::atomic<std::uint64_t>& cancels() const { return cancels_; }  // how often cancel() was called

  // What graph_session.h shares.
  const SessionOptions& options() const { return options_; }
  // One tuning at a time: timings must not disturb each other. Not owned where the effort was cancelled first.
  std::unique_lock<std::timed_mutex> tuning_turn(const Effort& effort);
  Background& background() { return background_; }
  void log(bool warning, const std::string& message) const;
  void log_store_warnings() const;

 private:
  struct Entry;
  class Table;
  class Visit;
  Status run_miss(const Problem& signature, const Call& call);
  Status miss(const Problem& signature, void* stream, const Kernel** kernel, Readied* readied);
  Status wait_for_other(const Problem& signature, Entry& entry, std::unique_lock<std::mutex>& lock,
                        const Effort& effort, const Kernel** kernel);
  Status make_ready(const Problem& signature, const Effort& effort, std::unique_ptr<Kernel>* kernel, Readied* readied);
  std::unique_ptr<Kernel> from_cache(const Problem& signature, Readied* readied);
  Status tune_under_lease(const Problem& signature, const Effort& effort, std::unique_ptr<Kernel>* kernel,
                          Readied* readied);
  Status tune_here(const Problem& signature, const Effort& effort, std::unique_ptr<Kernel>* kernel, Readied* readied);
  void keep(Tuned* tuned);
  Entry& entry_of(const Problem& signature);                                        // under mutex_
  const Kernel* publish(const Problem& signature, std::unique_ptr<Kernel> kernel);  // under mutex_
  const Kernel* find(const Problem& signature) const;

  std::unique_ptr<Device> device_;
  std::unique_ptr<cache::Store> store_;
  SessionOptions options_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // under mutex_; outlive the tables that point to them
  std::atomic<const Table*> table_;               // read without a lock; a full one is replaced, the old ones stay
  std::mutex mutex_;                              // guards what follows; never held while tuning
  std::condition_variable changed_;               // an entry finished, or a visit ended
  std::vector<std::unique_ptr<Table>> tables_;    // the last is the current one
  std::vector<std::unique_ptr<Entry>> entries_;
  int visits_ = 0;  // threads on the miss path: the destructor waits for them
  std::timed_mutex tuning_mutex_;
  std::atomic<std::uint64_t> cancels_ = 0;
  Background background_;  // the last: it goes before all that its threads use
};

}  // namespace gqa

// session.h: the story of a call.
// Owns: the map from signature to loaded kernel, one device, one store, and who tunes what: call -> problem -> look-up
// -> (miss) cache -> tune -> keep -> launch.
// Never: checks tensors (args.h does) or knows how a device works.
// Threads: run() from many threads at once. A hit takes no lock. Two threads that miss on one signature tune once: the
// second waits. Two processes: the cache's lease.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner.h"

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
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The hot path: finds the signature's kernel and launches it; a miss is readied first.
  Status run(const Call& call);

  // Makes a problem's signature ready without running anything.
  Status ready(const Problem& problem, Readied* readied = nullptr);

  Device& device() { return *device_; }
  cache::Store& store() { return *store_; }

 private:
  struct Entry;
  struct Table;
  const Kernel* find(const Problem& signature) const;
  Status miss(const Problem& signature, void* stream, const Kernel** kernel, Readied* readied);
  Status from_cache(const Problem& signature, std::unique_ptr<Kernel>* kernel, Readied* readied);
  Status tune_and_keep(const Problem& signature, std::unique_ptr<Kernel>* kernel, Readied* readied);
  const Kernel* publish(const Problem& signature, std::unique_ptr<Kernel> kernel);
  void log(bool warning, const std::string& message) const;

  std::unique_ptr<Device> device_;
  std::unique_ptr<cache::Store> store_;
  SessionOptions options_;
  std::atomic<const Table*> table_;  // read without a lock; replaced whole, old ones kept until the end
  std::mutex mutex_;                 // guards what follows; never held while tuning
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace gqa

// session.h: the story of a call.
// Owns: one device, one store, the table of programs that are ready, the operations' programs: call -> problem ->
// look-up -> launch, or a miss (misses.h), after which the table has it. The same for attention, graphs and operations.
// Never: checks tensors (args.h does) or knows how a device works; decides how a workload becomes ready.
// Threads: run() from many threads at once. A hit takes no lock. What a thread's recent calls found is kept beside them
// (prepared.h) under the session's number and the version of its table.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/session/misses.h"
#include "runtime/session/options.h"
#include "runtime/session/table.h"
#include "runtime/tuning.h"
#include "runtime/workload/workload.h"

namespace gqa {

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
  Status ready(Workload& workload, const ReadyRequest& request, ReadyResult* readied) {
    return misses_.ready(workload, request, readied);
  }

  // What is known of a problem's program, which is not made ready by it; none: nothing.
  std::optional<Misses::Known> known(const Problem& problem);

  // What merges is made ready at the first call, as what appends is.
  Status merge(const MergeCall& call);
  // Makes it ready without running it.
  Status ready(Operation operation, std::optional<Tuning> tuning = {}) {
    return ready_operation(operation, std::nullopt, tuning);
  }

  // Says something to the caller's log.
  void warn(const std::string& message) const { options_.say(true, message); }

  // Ends every miss in progress soon, with kCancelled. Later calls are unaffected.
  void cancel() { misses_.cancel(); }

  // For the caller's own work on this session: cancel() ends it, too.
  Effort effort(double budget_seconds) const { return misses_.effort(budget_seconds); }
  TunePolicy policy() const { return misses_.policy(); }
  void set_budget(double seconds) { misses_.set_budget(seconds); }  // of later misses; 0: the default

  Device& device() { return *device_; }
  cache::Store& store() { return *store_; }

 private:
  // A program that the call may be launched with.
  struct Ready {
    const LoadedProgram* program = nullptr;  // null: none
    bool two_steps = false;                  // the program does not append what the call brings
  };
  static Ready to_launch(const LoadedProgram& program, const Call& call) {
    return {&program, call.appends() && !program.appends(call)};
  }
  Ready prepared(const Call& call, std::optional<Tuning> tuning) const;
  Ready find(const Call& call, std::optional<Tuning> tuning) const;
  bool serves(const Call& call, bool guessed, std::optional<Tuning> tuning) const;
  bool captured(void* stream) const;
  // Null until it is ready.
  const LoadedProgram* loaded(Operation operation) const {
    return operations_[index_of(operation)].load(std::memory_order_acquire);
  }
  Status ready_operation(Operation operation, std::optional<void*> stream, std::optional<Tuning> tuning);
  Status launch(const Call& call, const Ready& ready, std::optional<Tuning> tuning);
  Status run_miss(const Call& call, std::optional<Tuning> tuning);
  Status ready_problem(const Signature& signature, std::optional<void*> stream, std::optional<Tuning> tuning,
                       ReadyResult* readied);
  void publish(const Signature& signature, const std::shared_ptr<const ReadyProgram>& ready);

  const std::uint64_t id_;  // unlike its address, never used again
  std::unique_ptr<Device> device_;
  std::unique_ptr<cache::Store> store_;
  const SessionOptions options_;
  CompilePool compile_pool_;
  std::array<std::atomic<const LoadedProgram*>, kOperations.size()> operations_ = {};  // misses_ keeps them
  std::atomic<const ProgramTable*> table_;             // read without a lock; a full one is replaced, the old ones stay
  std::atomic<std::uint64_t> version_ = 0;             // of its programs: raised where one takes another's place
  std::mutex mutex_;                                   // guards what follows
  std::vector<std::unique_ptr<ProgramTable>> tables_;  // the last is the current one
  Misses misses_;                                      // last: its threads use what is above
};

}  // namespace gqa

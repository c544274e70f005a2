// target.cc: see target.h.
#include "tools/cache/target.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/session/session.h"
#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"
#include "runtime/workload/operation_workload.h"
#include "tools/cache/errors.h"

namespace gqa::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::map<std::string, int> count_outcomes(const std::vector<Attempt>& attempts) {
  std::map<std::string, int> outcomes;
  for (const Attempt& attempt : attempts) ++outcomes[attempt.outcome];
  return outcomes;
}

Outlook look_at(const std::vector<Problem>& signatures, Forecast forecast) {
  for (const Problem& signature : signatures) {
    AttentionWorkload workload{Signature(signature)};
    if (const Status status = forecast.add(workload); !status.ok()) throw Failure(status.message());
  }
  return forecast.outlook();
}

std::string missing_text(Operation operation, const Status& why) {
  return (operation == Operation::kAppend ? "nothing can be appended to a cache: " : "states cannot be merged: ") +
         why.message();
}

class DeviceTarget : public Target {
 public:
  DeviceTarget(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store, const TunePolicy& policy,
               const ProgressFn& progress)
      : policy_(policy), session_(std::move(device), std::move(store), options(policy, progress)) {}

  std::string arch() override { return session_.device().spec().arch; }

  Outlook look(const std::vector<Problem>& signatures) override {
    return look_at(signatures, {session_.device(), session_.store(), policy_, Forecast::Work::kTune});
  }

  Warmed warm(const Problem& signature) override {
    const Clock::time_point start = Clock::now();
    Warmed warmed;
    warmed.problem = signature;
    warmed.device = session_.device().spec().arch;
    ReadyResult readied;
    const Status status = session_.ready(signature, &readied);
    warmed.from = readied.origin == Origin::kMemory ? "memory" : readied.origin == Origin::kCache ? "cache" : "tuned";
    if (status.ok()) read_winner(readied.ready->winner, &warmed);
    warmed.outcomes = count_outcomes(readied.attempts);
    warmed.failure = status.ok() ? not_kept(signature) : status.message();
    if (status.ok())
      for (const Operation operation : operations_beside(signature))
        if (const Status ready = session_.ready(operation); !ready.ok())
          warnings_.push_back(missing_text(operation, ready));
    warmed.seconds = seconds_since(start);
    // The session logs a failure and returns it: once is enough.
    std::erase(warnings_, warmed.failure);
    warmed.warnings = std::exchange(warnings_, {});
    return warmed;
  }

 private:
  static void read_winner(const cache::WinnerRow& winner, Warmed* warmed) {
    warmed->candidate = winner.candidate;
    warmed->median_us = winner.median_us;
    warmed->error = winner.error;
    warmed->bound = winner.bound;
  }

  SessionOptions options(const TunePolicy& policy, const ProgressFn& progress) {
    SessionOptions options;
    options.policy = policy;
    options.policy.heed_load = heeds_load();
    options.progress = progress;
    options.log = [this](bool warning, const std::string& message) {
      if (warning) warnings_.push_back(message);
    };
    return options;
  }

  // A winner that only this process knows is of no use to the next.
  std::string not_kept(const Problem& signature) {
    const Device& device = session_.device();
    const cache::WinnerKey key = winner_key(device, to_text(signature));
    const bool kept = session_.store().find_winner(key, device.compiler()).has_value();
    return kept ? "" : "it is tuned, but the cache did not keep it";
  }

  const TunePolicy policy_;
  std::vector<std::string> warnings_;  // before the session, which logs until it ends
  Session session_;
};

class ArchTarget : public Target {
 public:
  ArchTarget(std::unique_ptr<Device> device, std::shared_ptr<cache::Store> store, const TunePolicy& policy,
             const ProgressFn& progress)
      : device_(std::move(device)), store_(std::move(store)), policy_(policy), progress_(progress) {}

  std::string arch() override { return device_->spec().arch; }

  Outlook look(const std::vector<Problem>& signatures) override {
    return look_at(signatures, {*device_, *store_, policy_, Forecast::Work::kCompile});
  }

  Warmed warm(const Problem& signature) override {
    const Clock::time_point start = Clock::now();
    Warmed warmed;
    warmed.problem = signature;
    warmed.device = device_->spec().arch;
    warmed.from = "compiled";
    std::vector<Attempt> attempts;
    AttentionWorkload workload{Signature(signature)};
    const Status status = precompile(*device_, *store_, workload, policy_, progress_, &attempts);
    warmed.outcomes = count_outcomes(attempts);
    warmed.candidate = most_promising(attempts);
    warmed.failure = status.ok() ? not_kept(&workload, attempts) : status.message();
    warmed.warnings = store_->take_warnings();
    if (status.ok())
      for (const Operation operation : operations_beside(signature)) warm_operation(operation, &warmed.warnings);
    warmed.seconds = seconds_since(start);
    return warmed;
  }

 private:
  void warm_operation(Operation operation, std::vector<std::string>* warnings) {
    OperationWorkload workload(operation);
    std::vector<Attempt> attempts;
    const Status status = precompile(*device_, *store_, workload, policy_, progress_, &attempts);
    if (!status.ok()) warnings->push_back(missing_text(operation, status));
  }

  static bool usable(const Attempt& attempt) {
    return attempt.outcome == "compiled" || attempt.outcome == "in the cache already";
  }

  // Attempts come in the order in which they were compiled.
  static std::string most_promising(const std::vector<Attempt>& attempts) {
    const Attempt* best = nullptr;
    for (const Attempt& attempt : attempts) {
      if (usable(attempt) && (best == nullptr || attempt.predicted_us < best->predicted_us)) best = &attempt;
    }
    return best != nullptr ? best->name : "";
  }

  std::string not_kept(Workload* workload, const std::vector<Attempt>& attempts) {
    const auto lost = std::count_if(attempts.begin(), attempts.end(), [&](const Attempt& attempt) {
      Program program;
      return usable(attempt) && workload->program(attempt.name, device_->spec(), &program).ok() &&
             !store_->find_kernel_of_any_compiler(kernel_key(*device_, program.sources.front()));
    });
    return lost == 0 ? "" : std::to_string(lost) + " kernels are compiled, but the cache did not keep them";
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<cache::Store> store_;
  TunePolicy policy_;
  ProgressFn progress_;
};

}  // namespace

std::unique_ptr<Target> device_target(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store,
                                      const TunePolicy& policy, const ProgressFn& progress) {
  return std::make_unique<DeviceTarget>(std::move(device), std::move(store), policy, progress);
}

std::unique_ptr<Target> arch_target(std::unique_ptr<Device> device, std::shared_ptr<cache::Store> store,
                                    const TunePolicy& policy, const ProgressFn& progress) {
  return std::make_unique<ArchTarget>(std::move(device), std::move(store), policy, progress);
}

}  // namespace gqa::tools

// effort.h: what a miss may spend, and whether it is still wanted.
// Owns: Effort: the clock of one miss, its budget, and its handle's counter of cancellations as it was at the start.
// Everything slow in a miss asks it. search/ has no clock: it is handed a function that asks.
// Never: stops anything by itself.
// Threads: a value; any thread may ask.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "search/status.h"

namespace gqa {

// Between two looks at whether a call that waits is still wanted.
inline constexpr std::chrono::milliseconds kAskEvery(20);

class Effort {
 public:
  // cancels: raised by one to cancel all that began before; it outlives the effort. Null: cannot be cancelled.
  explicit Effort(double budget_seconds, const std::atomic<std::uint64_t>* cancels = nullptr)
      : budget_(budget_seconds), cancels_(cancels), cancels_before_(cancels == nullptr ? 0 : cancels->load()) {}

  // The same but for its clock, which starts now: what waiting for others took is nobody's budget.
  Effort restarted() const;

  double budget() const { return budget_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double left() const;
  bool spent(double share = 1) const { return seconds() >= share * budget_; }
  bool cancelled() const { return cancels_ != nullptr && cancels_->load(std::memory_order_relaxed) != cancels_before_; }
  // What a step that finds itself cancelled returns.
  Status check() const;
  // Asks cancelled(); good beyond the effort's own life.
  std::function<bool()> stop() const;

 private:
  using Clock = std::chrono::steady_clock;
  double budget_;
  const std::atomic<std::uint64_t>* cancels_;
  std::uint64_t cancels_before_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace gqa

// stopwatch.h: how long the phases of a miss take.
// Owns: Stopwatch, seconds since it was made; PhaseTimer, which adds a scope's time to a phase.
// Never: decides anything by itself.
// Threads: values.
#pragma once

#include <chrono>

namespace gqa {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Adds the time until the end of the scope to a phase.
class PhaseTimer {
 public:
  explicit PhaseTimer(double* phase) : phase_(phase) {}
  ~PhaseTimer() { *phase_ += watch_.seconds(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double* phase_;
  Stopwatch watch_;
};

}  // namespace gqa

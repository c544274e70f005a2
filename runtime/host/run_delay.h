// run_delay.h: how long this process waits for cores that others have.
// Owns: reading the scheduler's count for each of the process's threads (/proc/self/task/N/schedstat).
// Never: knows who the others are; where the kernel does not count, nobody is.
// Threads: one caller.
#pragma once

#include <chrono>

namespace gqa {

class RunDelay {
 public:
  RunDelay() { share(1); }
  // The share of the time since the last call that `threads` threads waited for a core; 0 to 1.
  double share(int threads);

 private:
  double waited_ = 0;  // seconds, all threads that there were
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
};

}  // namespace gqa

// arrivals.h: winners that came from elsewhere: in a file beneath the first, or by import.
// Owns: that none of them is used before a trial on this device has verified it, as the tuner verifies a candidate;
// that the first file then has it as its own, so that later processes need not; and which have failed here. Never:
// times one, or judges what this file's own processes measured. Kernels that merge, append and verify are no winners:
// they run as they are. Threads: any; whoever admits takes care that nobody times beside it.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/compile_pool.h"
#include "runtime/workload/workload.h"

namespace gqa {

class Arrivals {
 public:
  // All that it is given must outlive it.
  Arrivals(Device& device, cache::Store& store, CompilePool& compile_pool)
      : device_(device), store_(store), compile_pool_(compile_pool) {}

  // Whether it failed its verification in this process.
  bool refused(const cache::WinnerRow& row) const;

  // Verifies a program, loaded of a row that is `elsewhere`. Ok: the row is this file's own now, with the error that
  // was found here; *kept: the file has it, too. kNoCandidate: its numbers are wrong, it is refused from now on.
  // Otherwise it could not be verified, and the program may be gone. may_compile: as open_trial()'s.
  Status admit(const Workload& workload, bool may_compile, const Effort& effort, cache::WinnerRow* row,
               std::unique_ptr<LoadedProgram>* program, bool* kept);

 private:
  Device& device_;
  cache::Store& store_;
  CompilePool& compile_pool_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<std::string> refused_;
};

}  // namespace gqa

// forecast.h: what misses would cost, told before any of them begins.
// Owns: which workloads have a winner already, which kernels the others would have compiled, each counted once, and an
// estimate of the time.
// Never: compiles or times; the estimate is of plain constants, and the work's own progress replaces it.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/tuner.h"
#include "runtime/workload/workload.h"

namespace gqa {

struct Outlook {
  std::int64_t workloads = 0, ready = 0;     // ready: a tuned winner of the present versions is cached
  std::int64_t kernels = 0, to_compile = 0;  // that the others' misses choose, and those of them not yet cached
  double seconds = 0, most_seconds = 0;      // about, and if every miss spends its whole budget
};

class Forecast {
 public:
  // A compile-only device times nothing, and no winner makes a workload ready for it.
  enum class Work { kTune, kCompile };

  // Device and store must outlive it.
  Forecast(const Device& device, cache::Store& store, const TunePolicy& policy, Work work)
      : device_(device), store_(store), policy_(policy), work_(work) {}

  Status add(Workload& workload);
  Outlook outlook() const;

 private:
  bool is_ready(const Workload& workload);
  void add_kernel(const Source& source);

  const Device& device_;
  cache::Store& store_;
  const TunePolicy policy_;
  const Work work_;
  Outlook outlook_;
  double timing_seconds_ = 0;
  std::unordered_set<std::string> kernels_;  // keys
};

}  // namespace gqa

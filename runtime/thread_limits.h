// thread_limits.h: how many threads this process may use.
// Owns: GQA_THREADS, OMP_NUM_THREADS and a container's CPU quota, what they may say, and the words of a refusal.
// Never: starts a thread; parallel.cc and CompilePool do, as many as usable_threads() where nobody says a number.
// Threads: environment and quota are read once, at the first use; the affinity mask is the calling thread's.
#pragma once

#include <filesystem>

#include "search/status.h"

namespace gqa {

inline constexpr int kMostThreads = 1024;  // that GQA_THREADS may ask for, as configure() may

struct ThreadLimits {
  int asked = 0;  // by GQA_THREADS: that many, whatever the cores; 0: not asked
  int most = 0;   // by OMP_NUM_THREADS or a quota: no more than that; 0: no limit
};

// The limits that the variables' texts (null: not set) and quota_cores() set. A wrong GQA_THREADS is refused;
// OMP_NUM_THREADS is other libraries' too, and its first number alone counts: what it does not say as OpenMP has it is
// no limit.
Status parse_thread_limits(const char* gqa_threads, const char* omp_num_threads, int quota, ThreadLimits* limits);

// Cores that the process's control groups grant it, part of one as a whole; 0: no limit. Groups of both versions, and
// all those above them, under `root`, which has /proc and /sys.
int quota_cores(const std::filesystem::path& root);

// Threads that this process may use: what was asked, else the cores of the affinity mask within the limits.
int usable_threads();
// Says what is wrong with GQA_THREADS; open_device() refuses it. usable_threads() passes over it.
Status thread_limits_status();

}  // namespace gqa

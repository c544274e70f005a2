// parallel.h: one loop on several threads.
// Owns: parallel_for, dynamic and in order of index (put the longest work first), on OpenMP's pool; GivesUp, which ends
// the loops of a trial that nobody waits for any more.
// Never: nests; never lets an exception out of a body (bodies do not throw).
// Threads: may be called from several threads at once; each call waits for its own work only.
#pragma once

#include <cstdint>

#include "runtime/effort.h"
#include "search/graph/workers.h"

namespace gqa {

using ParallelBody = void (*)(void* context, std::int64_t index);
void parallel_for(std::int64_t count, int threads, ParallelBody body, void* context);

template <typename Body>
void parallel_for(std::int64_t count, int threads, Body body) {
  parallel_for(
      count, threads, [](void* context, std::int64_t index) { (*static_cast<Body*>(context))(index); }, &body);
}

// The same as what a long computation is lent; it ends early once the effort is cancelled.
Workers workers_of(const Effort& effort, int threads);

// While it lives, the loops that its thread starts leave out what is left of them once the effort is cancelled: what
// they were to write then means nothing.
class GivesUp {
 public:
  explicit GivesUp(const Effort& effort);
  ~GivesUp();
  GivesUp(const GivesUp&) = delete;
  GivesUp& operator=(const GivesUp&) = delete;
};

// Threads this process may use: its affinity mask.
int usable_threads();

}  // namespace gqa

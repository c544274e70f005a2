// parallel.h: one loop on several threads.
// Owns: parallel_for, dynamic and in order of index (put the longest work first), and the pool of threads that it runs
// on; GivesUp, which ends the loops of a trial that nobody waits for any more. Never: nests; never lets an exception
// out of a body (bodies do not throw). A thread that the system does not give is done without. A call allocates nothing
// once the pool has as many threads as are used at once. Threads: may be called from several threads at once; each call
// has workers of its own and waits for them only. The pool's threads stay until the process ends; a forked child starts
// its own.
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

}  // namespace gqa

// pool.h: the threads that parallel_for runs on.
// Owns: the process's workers: they are started when a call wants more than are free, wait awake for kAwake after their
// work, and then sleep.
// Never: ends a worker; lends one to two calls at once; waits for one that has not begun.
// Threads: any, at once. A call that finds no free worker, and gets no new one, runs on its own thread alone.
#pragma once

#include <chrono>
#include <cstdint>

namespace gqa {

// How long a thread spins before it sleeps: a worker for its next call, a caller for its last workers.
inline constexpr std::chrono::microseconds kAwake(50);

// body(context, i) of each i below count, begun in that order, on the calling thread and at most threads - 1 workers.
void run_on_pool(std::int64_t count, int threads, void (*body)(void* context, std::int64_t index), void* context);

}  // namespace gqa

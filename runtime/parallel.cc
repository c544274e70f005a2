// parallel.cc: see parallel.h.
#include "runtime/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace gqa {
namespace {

// OpenMP's pool does not survive fork(), and the thread sanitizer cannot see into it: a forked child and sanitized
// builds start threads of their own.
#if defined(__SANITIZE_THREAD__)
std::atomic<bool> own_threads = true;
#else
std::atomic<bool> own_threads = false;
#endif

thread_local const Effort* asked = nullptr;  // by GivesUp

const int fork_watch = pthread_atfork(nullptr, nullptr, [] { own_threads = true; });

void run_on_own_threads(std::int64_t count, int threads, ParallelBody body, void* context) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) body(context, i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

void run_loop(std::int64_t count, int threads, ParallelBody body, void* context) {
  threads = static_cast<int>(std::clamp<std::int64_t>(count, 1, threads));
  if (threads > 1 && own_threads) return run_on_own_threads(count, threads, body, context);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) body(context, i);
}

// A body that asks before each step.
struct Asking {
  ParallelBody body;
  void* context;
  const Effort& effort;
  static void run(void* self, std::int64_t index) {
    const auto& asking = *static_cast<const Asking*>(self);
    if (!asking.effort.cancelled()) asking.body(asking.context, index);
  }
};

}  // namespace

void parallel_for(std::int64_t count, int threads, ParallelBody body, void* context) {
  if (asked == nullptr) return run_loop(count, threads, body, context);
  Asking asking = {body, context, *asked};
  run_loop(count, threads, Asking::run, &asking);
}

GivesUp::GivesUp(const Effort& effort) { asked = &effort; }
GivesUp::~GivesUp() { asked = nullptr; }

Workers workers_of(const Effort& effort, int threads) {
  return {effort.stop(), [threads](std::int64_t count, const std::function<void(std::int64_t)>& body) {
            parallel_for(count, threads, [&](std::int64_t at) { body(at); });
          }};
}

int usable_threads() {
  (void)fork_watch;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace gqa

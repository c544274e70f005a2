// pool.cc: see pool.h.
#include "runtime/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

namespace gqa {
namespace {

using Clock = std::chrono::steady_clock;

// One call's loop, on its caller's stack.
struct Job {
  std::int64_t count;
  void (*body)(void* context, std::int64_t index);
  void* context;
  alignas(64) std::atomic<std::int64_t> next = 0;

  void work() {
    for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed))
      body(context, i);
  }
};

// What a worker does, and who sleeps until that changes. A caller posts a job and may take it back until the worker has
// begun: a worker that waits for a core delays nobody.
enum Turn : std::uint32_t {
  kFree,     // the worker spins
  kAsleep,   // the worker sleeps
  kPosted,   // a job is there
  kWorking,  // on the job
  kAwaited,  // on the job, and its caller sleeps
};

// Sleepers are woken by a tree: a call wakes two of its workers, and each that begins two more, so that no thread makes
// a system call for each of them.
constexpr int kWakes = 2;

struct alignas(64) Worker {
  std::atomic<std::uint32_t> turn = kFree;
  std::atomic<bool> unwoken = false;  // kPosted while it slept, and nobody has woken it since
  Job* job = nullptr;                 // of kPosted and on
  Worker* next = nullptr;             // in the list of those that are free, or in a call's
  Worker* wakes[kWakes] = {};         // likewise
};

struct Pool {
  std::mutex mutex;  // of what follows; held for a few instructions
  Worker* free = nullptr;
  Clock::time_point ask_again = {};  // for a thread, after the system gave none
};

constexpr std::chrono::seconds kAskAfter(1);

constinit Pool pool;

// The workers are not in a forked child, and the mutex may have been held by a thread that is not there either.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (&pool) Pool; });

// A futex's word is a plain integer to the kernel.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void sleep_while(std::atomic<std::uint32_t>& turn, std::uint32_t value) {
  while (turn.load(std::memory_order_acquire) == value)
    syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& turn) { syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

void wake_all(Worker* const (&workers)[kWakes]) {
  for (Worker* worker : workers)
    if (worker != nullptr && worker->unwoken.exchange(false)) wake(worker->turn);
}

// Until done() or kAwake has gone by; returns done().
template <typename Done>
bool spin_until(const Done& done) {
  const Clock::time_point end = Clock::now() + kAwake;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (Clock::now() < end);
  return done();
}

void* serve(void* self) {
  auto& worker = *static_cast<Worker*>(self);
  for (;;) {
    const auto posted = [&] { return worker.turn.load(std::memory_order_acquire) == kPosted; };
    std::uint32_t expected = kFree;
    if (!spin_until(posted)) {
      worker.turn.compare_exchange_strong(expected, kAsleep);
      sleep_while(worker.turn, kAsleep);
    }
    expected = kPosted;
    if (!worker.turn.compare_exchange_strong(expected, kWorking)) continue;  // taken back
    wake_all(worker.wakes);
    worker.job->work();
    if (worker.turn.exchange(kFree) == kAwaited) wake(worker.turn);
  }
}

// A thread that begins with the job, or null where the system gives none.
Worker* start(Job* job) {
  Worker* worker = new (std::nothrow) Worker;
  if (worker == nullptr) return nullptr;
  worker->job = job;
  worker->turn.store(kPosted);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const bool started = pthread_create(&thread, &detached, serve, worker) == 0;
  pthread_attr_destroy(&detached);
  if (started) return worker;
  delete worker;
  return nullptr;
}

// Hands the job to all of them. They are numbered from `count` down to 1, the caller is 0, and number n wakes 2 n + 1
// and 2 n + 2: whoever is to be woken has the job before who wakes it.
void hand_out(Job* job, Worker* workers, std::int64_t count) {
  Worker* woken = workers;  // by the next that wakes any
  const auto take = [&](std::int64_t number, Worker*(&wakes)[kWakes]) {
    for (int at = kWakes; at-- > 0;) {
      wakes[at] = kWakes * number + at + 1 <= count ? woken : nullptr;
      if (wakes[at] != nullptr) woken = woken->next;
    }
  };
  std::int64_t number = count;
  for (Worker* worker = workers; worker != nullptr; worker = worker->next, --number) {
    take(number, worker->wakes);
    worker->job = job;
    worker->unwoken.store(worker->turn.exchange(kPosted) == kAsleep);
  }
  Worker* first[kWakes];
  take(0, first);
  wake_all(first);
}

// Up to `wanted` workers, linked, each with the job.
Worker* post(Job* job, std::int64_t wanted) {
  Worker* taken = nullptr;
  std::int64_t count = 0;
  bool may_start = false;
  {
    const std::lock_guard lock(pool.mutex);
    for (; wanted > 0 && pool.free != nullptr; --wanted, ++count) {
      Worker* worker = pool.free;
      pool.free = worker->next;
      worker->next = taken;
      taken = worker;
    }
    may_start = wanted > 0 && (pool.ask_again == Clock::time_point() || Clock::now() >= pool.ask_again);
  }
  hand_out(job, taken, count);
  for (; may_start && wanted > 0; --wanted) {
    Worker* worker = start(job);
    if (worker == nullptr) {
      const std::lock_guard lock(pool.mutex);
      pool.ask_again = Clock::now() + kAskAfter;
      break;
    }
    worker->next = taken;
    taken = worker;
  }
  return taken;
}

// Takes the job back from a worker that has not begun, or waits until it is done.
void take_back(Worker& worker) {
  std::uint32_t expected = kPosted;
  const std::uint32_t before = worker.unwoken.exchange(false) ? kAsleep : kFree;
  if (worker.turn.compare_exchange_strong(expected, before)) return;
  const auto done = [&] { return worker.turn.load(std::memory_order_acquire) != kWorking; };
  if (spin_until(done)) return;
  expected = kWorking;
  if (worker.turn.compare_exchange_strong(expected, kAwaited)) sleep_while(worker.turn, kAwaited);
}

}  // namespace

void run_on_pool(std::int64_t count, int threads, void (*body)(void* context, std::int64_t index), void* context) {
  (void)at_fork;
  Job job = {count, body, context};
  const std::int64_t wanted = std::min<std::int64_t>(count, threads) - 1;
  Worker* const workers = wanted > 0 ? post(&job, wanted) : nullptr;
  job.work();
  if (workers == nullptr) return;
  Worker* last = nullptr;
  for (Worker* worker = workers; worker != nullptr; worker = worker->next) take_back(*(last = worker));
  const std::lock_guard lock(pool.mutex);
  last->next = pool.free;
  pool.free = workers;
}

}  // namespace gqa

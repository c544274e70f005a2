// parallel_test.cc: every index once, in order of index; several callers at once; a forked child; threads that the
// system does not give; workers that sleep.
#include "runtime/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/sanitized.h"

namespace gqa {
namespace {

// True if each of `count` indices was visited exactly once.
bool visits_each_once(std::int64_t count, int threads) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
  parallel_for(count, threads, [&](std::int64_t i) { ++visits[static_cast<std::size_t>(i)]; });
  for (const std::atomic<int>& one : visits)
    if (one != 1) return false;
  return true;
}

TEST(Parallel, EveryIndexOnce) {
  for (const int threads : {1, 2, 5})
    for (const std::int64_t count : {0, 1, 3, 1000}) EXPECT_TRUE(visits_each_once(count, threads)) << count;
}

TEST(Parallel, OneThreadGoesInOrder) {
  std::vector<std::int64_t> order;
  parallel_for(5, 1, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ((std::vector<std::int64_t>{0, 1, 2, 3, 4}), order);
}

// The most threads that were in a loop's body at once; each waits up to two seconds for the others.
int threads_at_once(int threads) {
  std::atomic<int> inside = 0, most = 0;
  parallel_for(threads, threads, [&](std::int64_t) {
    const int now = ++inside;
    for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
    }
    for (int wait = 0; wait < 2000 && most < threads; ++wait) usleep(1000);
    --inside;
  });
  return most;
}

TEST(Parallel, SeveralThreadsTakePart) { EXPECT_EQ(3, threads_at_once(3)); }

// The same workers again, though they slept meanwhile: a few, which the call wakes, and many, which wake each other.
TEST(Parallel, WorkersThatSleptAreWoken) {
  for (const int threads : {3, 4, 11, 12}) {
    ASSERT_EQ(threads, threads_at_once(threads));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(threads, threads_at_once(threads));
  }
}

// Steps so short that workers are taken back while they sleep: the next loop still wakes them.
TEST(Parallel, WorkersThatWereTakenBackAreWokenAgain) {
  ASSERT_EQ(8, threads_at_once(8));
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ASSERT_TRUE(visits_each_once(8, 8));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(8, threads_at_once(8));
}

// One caller holds its workers for as long as the other's loop lasts, which has workers of its own.
TEST(Parallel, ABusyCallerTakesNoWorkerFromAnother) {
  std::atomic<int> holding = 0;
  std::atomic<bool> over = false;
  std::thread busy([&] {
    parallel_for(3, 3, [&](std::int64_t) {
      for (++holding; !over;) usleep(100);
    });
  });
  while (holding < 3) usleep(100);
  EXPECT_EQ(3, threads_at_once(3));
  over = true;
  busy.join();
}

TEST(Parallel, CallersDoNotDisturbEachOther) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) failed += !visits_each_once(50, 3);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(0, failed);
}

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Parallel, WorkersThatHaveNothingToDoSleep) {
  ASSERT_EQ(5, threads_at_once(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.02);
}

// A caller that has nothing left to do sleeps, too, until its worker is done.
TEST(Parallel, ACallerThatWaitsSleeps) {
  std::atomic<bool> begun = false;
  const double before = cpu_seconds();
  const auto caller = std::this_thread::get_id();
  parallel_for(2, 2, [&](std::int64_t) {
    if (std::this_thread::get_id() == caller) {
      for (int wait = 0; wait < 2000 && !begun; ++wait) usleep(1000);
      return;
    }
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_TRUE(begun);
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

// A number of /proc/self/status.
rlim_t status_of_process(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (rlim_t number = 0; word == name && status >> number) return number;
  return 0;
}

int threads_of_process() { return static_cast<int>(status_of_process("Threads:")); }
rlim_t bytes_of_process() { return 1024 * status_of_process("VmSize:"); }

TEST(Parallel, ALoopStartsNoThreadWhereEnoughAreFree) {
  ASSERT_EQ(3, threads_at_once(3));
  const int before = threads_of_process();
  ASSERT_GE(before, 3);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(visits_each_once(20, 3));
  EXPECT_EQ(before, threads_of_process());
}

// A Python program forks workers after its first call: the pool's threads are not in the child.
TEST(Parallel, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer refuses threads in a child forked by a program with threads";
#endif
  ASSERT_TRUE(visits_each_once(100, 3));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that hangs fails
    _exit(visits_each_once(100, 3) && threads_at_once(3) == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// In a child of its own, which has no workers yet and no memory for a thread's stack.
TEST(Parallel, AThreadThatDoesNotStartIsDoneWithout) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs the memory that is forbidden here";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    pthread_attr_t large;  // no stack that the parent's threads left fits
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 256 << 20);
    rlimit before_it = {};
    getrlimit(RLIMIT_AS, &before_it);
    const rlimit no_more = {bytes_of_process() + (4 << 20), before_it.rlim_max};
    if (pthread_setattr_default_np(&large) != 0 || setrlimit(RLIMIT_AS, &no_more) != 0) _exit(2);
    const int before = threads_of_process();
    std::atomic<int> visits = 0;
    for (int call = 0; call < 3; ++call) parallel_for(100, 5, [&](std::int64_t) { ++visits; });
    if (visits != 300) _exit(3);
    if (threads_of_process() != before) _exit(4);
    setrlimit(RLIMIT_AS, &before_it);
    usleep(1'200'000);  // asked again after a second
    _exit(threads_at_once(3) == 3 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace gqa

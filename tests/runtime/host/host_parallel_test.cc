// The host's parallel loop: every index once, in order of index, from several callers, and in a forked child.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/parallel.h"

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

TEST(HostParallel, EveryIndexOnce) {
  for (const int threads : {1, 2, 5})
    for (const std::int64_t count : {0, 1, 3, 1000}) EXPECT_TRUE(visits_each_once(count, threads)) << count;
}

TEST(HostParallel, OneThreadGoesInOrder) {
  std::vector<std::int64_t> order;
  parallel_for(5, 1, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ((std::vector<std::int64_t>{0, 1, 2, 3, 4}), order);
}

TEST(HostParallel, SeveralThreadsTakePart) {
  std::atomic<int> inside = 0, most = 0;
  parallel_for(2, 2, [&](std::int64_t) {
    const int now = ++inside;
    for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
    }
    for (int wait = 0; wait < 2000 && most < 2; ++wait) usleep(1000);
    --inside;
  });
  EXPECT_EQ(2, most);
}

TEST(HostParallel, CallersDoNotDisturbEachOther) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) failed += !visits_each_once(50, 3);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(0, failed);
}

// A Python program forks workers after its first call: the pool's threads are not in the child.
TEST(HostParallel, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer refuses threads in a child forked by a program with threads";
#endif
  ASSERT_TRUE(visits_each_once(100, 3));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that hangs fails
    _exit(visits_each_once(100, 3) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(HostParallel, UsableThreadsFollowTheAffinityMask) {
  std::thread([] {  // of a thread of its own: the mask goes with it
    cpu_set_t all, one;
    ASSERT_EQ(0, sched_getaffinity(0, sizeof all, &all));
    EXPECT_EQ(CPU_COUNT(&all), usable_threads());
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(0, sched_setaffinity(0, sizeof one, &one));
    EXPECT_EQ(1, usable_threads());
  })
      .join();
}

}  // namespace
}  // namespace gqa

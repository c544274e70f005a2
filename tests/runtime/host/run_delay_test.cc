// run_delay_test.cc: threads that wait for cores are seen to wait.
#include "runtime/host/run_delay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "runtime/thread_limits.h"

namespace gqa {
namespace {

TEST(RunDelay, MoreThreadsThanCoresWait) {
  if (!std::filesystem::exists("/proc/self/schedstat")) GTEST_SKIP() << "this kernel does not count";
  const int cores = usable_threads();
  std::atomic<bool> done = false;
  std::vector<std::thread> busy;
  RunDelay delay;
  for (int i = 0; i < 4 * cores; ++i)
    busy.emplace_back([&] {
      while (!done) {
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double share = delay.share(cores);
  done = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_GT(share, 0.5);  // four a core: three of them wait
  EXPECT_LE(share, 1);
}

TEST(RunDelay, WhoSleepsDoesNotWaitForACore) {
  RunDelay delay;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(delay.share(usable_threads()), 0.1);
}

}  // namespace
}  // namespace gqa

// thread_limits_test.cc: what GQA_THREADS, OMP_NUM_THREADS and a container's quota may say, and that a process keeps to
// it.
#include "runtime/thread_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "runtime/device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa {
namespace {

namespace fs = std::filesystem;

ThreadLimits parsed(const char* gqa_threads, const char* omp_num_threads, int quota) {
  ThreadLimits limits;
  const Status status = parse_thread_limits(gqa_threads, omp_num_threads, quota, &limits);
  EXPECT_TRUE(status.ok()) << status.message();
  return limits;
}

TEST(ThreadLimits, NothingSetIsNoLimit) {
  const ThreadLimits limits = parsed(nullptr, nullptr, 0);
  EXPECT_EQ(0, limits.asked);
  EXPECT_EQ(0, limits.most);
}

TEST(ThreadLimits, GqaThreadsIsANumberAndNothingElse) {
  EXPECT_EQ(3, parsed("3", "8", 2).asked);
  EXPECT_EQ(1024, parsed("1024", nullptr, 0).asked);
  for (const char* wrong : {"", "two", "0", "-1", "1025", "3 "}) {
    ThreadLimits limits;
    const Status status = parse_thread_limits(wrong, nullptr, 0, &limits);
    EXPECT_EQ(Code::kOption, status.code()) << wrong;
    EXPECT_NE(std::string::npos, status.message().find("GQA_THREADS")) << status.message();
    EXPECT_NE(std::string::npos, status.message().find("1024")) << status.message();
  }
}

TEST(ThreadLimits, TheLesserOfOpenMPsNumberAndTheQuotaHolds) {
  EXPECT_EQ(4, parsed(nullptr, "4", 0).most);
  EXPECT_EQ(2, parsed(nullptr, "4", 2).most);
  EXPECT_EQ(4, parsed(nullptr, "4", 8).most);
  EXPECT_EQ(8, parsed(nullptr, nullptr, 8).most);
  EXPECT_EQ(4, parsed(nullptr, " 4,2", 0).most);
  for (const char* no_number : {"", "x", "0", "-2", "4x", "99999999999"})
    EXPECT_EQ(0, parsed(nullptr, no_number, 0).most) << no_number;
}

class Quota : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  fs::path root() const { return folder_.file(""); }
  int cores() const { return quota_cores(root()); }

  test::TemporaryFolder folder_;
};

TEST_F(Quota, NoGroupsAreNoLimit) { EXPECT_EQ(0, cores()); }

TEST_F(Quota, OfAContainer) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(0, cores());
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(2, cores());
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(2, cores());
  write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(1, cores());
}

TEST_F(Quota, TheLeastOfAGroupAndThoseAbove) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "800000 100000\n");
  EXPECT_EQ(8, cores());
  write("sys/fs/cgroup/outer/cpu.max", "300000 100000\n");
  EXPECT_EQ(3, cores());
}

TEST_F(Quota, OfVersionOne) {
  write("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(0, cores());
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");  // the container's own stands at the top
  EXPECT_EQ(4, cores());
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(1, cores());
}

TEST_F(Quota, WhatCannotBeReadIsNoLimit) {
  write("proc/self/cgroup", "nonsense\n0::/\n");
  for (const char* text : {"", "100000", "x y", "-1 100000", "100000 0"}) {
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(0, cores()) << text;
  }
}

TEST(ThreadLimits, UsableThreadsFollowTheAffinityMask) {
  if (std::getenv("GQA_THREADS") != nullptr) GTEST_SKIP() << "GQA_THREADS says a number";
  std::thread([] {  // of a thread of its own: the mask goes with it
    ThreadLimits limits;
    ASSERT_TRUE(parse_thread_limits(nullptr, std::getenv("OMP_NUM_THREADS"), quota_cores("/"), &limits).ok());
    cpu_set_t all, one;
    ASSERT_EQ(0, sched_getaffinity(0, sizeof all, &all));
    EXPECT_EQ(limits.most > 0 ? std::min(limits.most, CPU_COUNT(&all)) : CPU_COUNT(&all), usable_threads());
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(0, sched_setaffinity(0, sizeof one, &one));
    EXPECT_EQ(1, usable_threads());
  })
      .join();
}

// The environment is read once in a process, so that each of these is a process of its own.
TEST(ThreadLimitsDeathTest, AProcessHasAsManyThreadsAsItIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GQA_THREADS", "7", 1);
        setenv("OMP_NUM_THREADS", "1", 1);
        std::_Exit(usable_threads() == 7 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        unsetenv("GQA_THREADS");
        setenv("OMP_NUM_THREADS", "1", 1);
        std::_Exit(usable_threads() == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(ThreadLimitsDeathTest, AWrongNumberIsRefusedWhereADeviceIsOpenedWithoutOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("GQA_THREADS", "two", 1);
        DeviceRequest request;
        request.name = "host";
        std::unique_ptr<Device> device;
        const Status status = open_device(request, &device);
        const bool named = status.code() == Code::kOption && status.message().find("GQA_THREADS") != std::string::npos;
        request.threads = 2;
        std::_Exit(named && open_device(request, &device).ok() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gqa

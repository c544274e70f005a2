// launch_numbers_test.cc: what a launch takes from lengths: cached is what would be computed.
// Owns: kernels and lengths by turns, more of them than the cache has places.
// Needs no GPU and no CUDA driver.
#include "runtime/cuda/launch/launch_numbers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace gqa {
namespace {

struct Case {
  std::uint64_t kernel;
  Problem problem;
  Candidate candidate;
};

// Kernels that differ in what they make of the same lengths, and lengths that differ in one number each.
std::vector<Case> numbered_cases() {
  std::vector<Case> cases;
  const char* const candidates[] = {"split m=16 n=32 warps=4 stages=3 pack=4 splits=6",
                                    "flash m=128 n=64 warps=4 stages=2 pack=1",
                                    "warpgroup m=128 n=80 warps=8 stages=2 out=1 pack=4 dynamic=1 head_swizzle=6"};
  std::uint64_t kernel = 1000;
  for (const char* text : candidates) {
    Candidate candidate;
    EXPECT_TRUE(parse(text, &candidate).ok());
    Problem p;
    EXPECT_TRUE(parse("b=2,hq=12,hk=3,sq=1,sk=4096,d=128", &p).ok());
    ++kernel;
    for (p.batch = 1; p.batch < 9; ++p.batch)
      for (p.q_len = 1; p.q_len < 400; p.q_len += 37)
        for (p.kv_len = 1000; p.kv_len < 1004; ++p.kv_len) cases.push_back({kernel, p, candidate});
  }
  return cases;
}

bool same_numbers(const LaunchNumbers& a, const LaunchNumbers& b) {
  return std::memcmp(&a.params, &b.params, sizeof a.params) == 0 && a.plan.blocks == b.plan.blocks &&
         a.plan.partial_floats == b.plan.partial_floats && a.plan.counters == b.plan.counters &&
         a.plan.threads == b.plan.threads && a.plan.shared_memory == b.plan.shared_memory;
}

int wrong_numbers(const std::vector<Case>& cases) {
  int wrong = 0;
  for (const Case& one : cases)
    for (int again = 0; again < 2; ++again)
      wrong += !same_numbers(cached_numbers(one.kernel, one.problem, one.candidate),
                             launch_numbers(one.problem, one.candidate));
  return wrong;
}

TEST(LaunchNumbers, CachedOnesAreWhatWouldBeComputed) {
  const std::vector<Case> cases = numbered_cases();
  EXPECT_EQ(wrong_numbers(cases), 0);
  EXPECT_EQ(wrong_numbers(cases), 0);
}

TEST(LaunchNumbers, ASideOfAWindowIsNoneWhereItHidesNothing) {
  Call call;
  ASSERT_TRUE(parse("b=1,hq=1,hk=1,sq=12,sk=5,d=64,left=4,right=11", &call.problem).ok());
  EXPECT_EQ(cache_params_of(call).window_left, 4);
  EXPECT_EQ(cache_params_of(call).window_right, 11);  // of five keys the first query would see one with 8
  call.problem.window_left = 5;
  call.problem.window_right = 12;
  EXPECT_EQ(cache_params_of(call).window_left, -1);
  EXPECT_EQ(cache_params_of(call).window_right, -1);
}

TEST(LaunchNumbers, TheyAreComputedOnce) {
  const Case one = numbered_cases()[0];
  const Case other = numbered_cases().back();
  ASSERT_FALSE(same_numbers(launch_numbers(one.problem, one.candidate), launch_numbers(one.problem, other.candidate)));
  const LaunchNumbers first = cached_numbers(77, one.problem, one.candidate);
  // Under the same kernel's number a second candidate is not looked at: one number stands for one candidate.
  EXPECT_TRUE(same_numbers(cached_numbers(77, one.problem, other.candidate), first));
  EXPECT_FALSE(same_numbers(cached_numbers(78, one.problem, other.candidate), first));
}

// More kernels than places, all for the same lengths.
TEST(LaunchNumbers, KernelsDoNotTakeEachOthers) {
  const std::vector<Case> cases = numbered_cases();
  const Problem& lengths = cases[0].problem;
  int wrong = 0;
  for (std::uint64_t kernel = 5000; kernel < 6000; ++kernel) {
    const Candidate& candidate = kernel % 2 == 0 ? cases[0].candidate : cases.back().candidate;
    wrong += !same_numbers(cached_numbers(kernel, lengths, candidate), launch_numbers(lengths, candidate));
  }
  EXPECT_EQ(wrong, 0);
}

TEST(LaunchNumbers, ThreadsHaveTheirOwn) {
  const std::vector<Case> cases = numbered_cases();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { wrong += wrong_numbers(cases); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace gqa

// nearest_call_test.cc: the call that is named beside a refusal, or beside a slow one.
#include "runtime/workload/nearest_call.h"

#include <gtest/gtest.h>

#include "runtime/workload/attention_workload.h"
#include "search/families/space.h"

namespace gqa {
namespace {

Problem problem_of(const std::string& text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

// Shared memory that holds a tile of keys, but none of keys that lie transposed.
DeviceSpec small_device() {
  DeviceSpec device = *DeviceSpec::for_arch("sm_80");
  device.smem_per_block = 36 << 10;
  return device;
}

const char* const kTransposed = "b=1,hq=8,hk=2,sq=128,sk=512,d=128,ktrans";
const char* const kDense = "b=1,hq=8,hk=2,sq=128,sk=512,d=128,dtype=bf16";

TEST(NearestCall, OfWhatNoFamilyServesIsServed) {
  const Problem problem = problem_of(kTransposed);
  ASSERT_TRUE(enumerate(problem, small_device()).ranked.empty());
  const auto nearest = served_call(problem, small_device());
  ASSERT_TRUE(nearest.has_value());
  EXPECT_EQ(nearest->change, "keys whose head dimension is contiguous");
  EXPECT_EQ(nearest->problem, kDense);
  EXPECT_GT(nearest->predicted_us, 0);
}

TEST(NearestCall, StandsInTheRefusal) {
  Options options;
  AttentionWorkload workload{Signature(problem_of(kTransposed))};
  ASSERT_TRUE(workload.options(0, small_device(), Effort(1), {}, &options).ok());
  EXPECT_TRUE(options.ranked.empty());
  EXPECT_EQ(options.report,
            std::string("; the nearest call that is served: with keys whose head dimension is contiguous, ") + kDense);
  AttentionWorkload served{Signature(problem_of(kDense))};
  Options others;
  ASSERT_TRUE(served.options(0, small_device(), Effort(1), {}, &others).ok());
  EXPECT_EQ(others.report, "");
}

TEST(NearestCall, IsNoneWhereNoChangeHelps) {
  DeviceSpec device = small_device();
  device.smem_per_block = 1 << 10;
  EXPECT_FALSE(served_call(problem_of(kTransposed), device).has_value());
  EXPECT_FALSE(faster_call(problem_of(kDense), small_device(), 1e9).has_value());
}

TEST(NearestCall, IsClearlyFaster) {
  const DeviceSpec device = *DeviceSpec::for_arch("sm_90a");
  const Problem unaligned = problem_of("b=1,hq=8,hk=2,sq=4096,sk=4096,d=128,align=2");
  const double now = predicted(unaligned, device, "")->predicted_us;
  const auto nearest = faster_call(unaligned, device, now);
  ASSERT_TRUE(nearest.has_value());
  EXPECT_LT(nearest->predicted_us, 0.9 * now);
  EXPECT_FALSE(faster_call(unaligned, device, nearest->predicted_us).has_value());
}

}  // namespace
}  // namespace gqa

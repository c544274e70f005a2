// target_test.cc: warming a shape on a device and for an architecture, where the cache cannot keep it.
#include "tools/cache/target.h"

#include <gtest/gtest.h>

#include "runtime/cuda/driver/probe.h"

namespace gqa::tools {
namespace {

Problem small() {
  Problem problem;
  EXPECT_TRUE(parse("hq=2,sq=16,d=32", &problem).ok());
  return problem;
}

std::unique_ptr<cache::Store> no_store() { return cache::Store::open({"", cache::Mode::kOff}); }

TunePolicy quick() {
  TunePolicy policy;
  policy.budget_seconds = 0.05;
  return policy;
}

TEST(DeviceTarget, WhatIsNotKeptIsNotWarm) {
  std::unique_ptr<Device> device;
  ASSERT_TRUE(open_host_device(1, &device).ok());
  int reports = 0;
  const auto target = device_target(std::move(device), no_store(), quick(), [&reports](const Progress&) { ++reports; });
  const Warmed warmed = target->warm(small());
  EXPECT_NE(warmed.failure.find("did not keep it"), std::string::npos) << warmed.failure;
  EXPECT_EQ(warmed.from, "tuned");
  EXPECT_EQ(warmed.outcomes.at("winner"), 1);
  EXPECT_GT(reports, 0);
}

TEST(ArchTarget, WhatIsNotKeptIsNotWarm) {
  if (const std::string nvrtc = describe_nvrtc(""); nvrtc.rfind("NVRTC ", 0) != 0) GTEST_SKIP() << nvrtc;
  std::unique_ptr<Device> device;
  ASSERT_TRUE(open_compile_only_device("sm_80", "", &device).ok());
  const auto target = arch_target(std::move(device), no_store(), quick(), {});
  const Warmed warmed = target->warm(small());
  EXPECT_NE(warmed.failure.find("did not keep"), std::string::npos) << warmed.failure;
  EXPECT_GT(warmed.outcomes.at("compiled"), 0);
}

}  // namespace
}  // namespace gqa::tools

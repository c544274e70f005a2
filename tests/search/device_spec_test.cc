// device_spec_test.cc: the devices that are known, and what makes two of them one.
#include "search/device_spec.h"

#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

TEST(DeviceSpec, TableIsWhole) {
  EXPECT_EQ(DeviceSpec::known_archs(),
            (std::vector<std::string>{"sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"}));
  for (const std::string& arch : DeviceSpec::known_archs()) {
    const DeviceSpec spec = *DeviceSpec::for_arch(arch);
    EXPECT_EQ(spec.arch, arch);
    EXPECT_EQ(arch.rfind("sm_" + std::to_string(spec.compute_capability), 0), 0u) << arch;
    EXPECT_EQ(spec.smem_per_sm - spec.smem_per_block, 1024);
    EXPECT_TRUE(spec.threads_per_sm == 1536 || spec.threads_per_sm == 2048);
    EXPECT_EQ(spec.wgmma_flops > spec.tensor_flops, arch == "sm_90a") << arch;
    EXPECT_TRUE(spec.memory_gb_per_s > 0 && spec.clock_mhz > 0) << arch;
    EXPECT_LT(spec.memory_bandwidth, 1e9 * spec.memory_gb_per_s) << "what is reached, and what the driver says";
    EXPECT_TRUE(spec.sms > 0 && spec.l2_bytes > 0 && spec.tensor_flops > 0 && spec.memory_bandwidth > 0);
  }
  EXPECT_FALSE(DeviceSpec::for_arch("sm_75").has_value());
  EXPECT_FALSE(DeviceSpec::for_arch("").has_value());
  EXPECT_FALSE(DeviceSpec::for_arch("sm_80a").has_value());
}

// What is compiled for a plain name must be what a card asks for.
TEST(DeviceSpec, APlainNameStandsForTheFormThatCardsAskFor) {
  for (const std::string arch : {"sm_90", "sm_100", "sm_103", "sm_120"})
    EXPECT_EQ(DeviceSpec::for_arch(arch).value_or(DeviceSpec()).arch, arch + "a");
}

TEST(DeviceSpec, IdentityHoldsWhatDecidesSpeedAndNoEstimate) {
  DeviceSpec spec = h200();
  EXPECT_EQ(spec.identity(), "cuda sm_90a sms=132 smem=232448/233472 l2=62914560 mem=4917GB/s clock=1980MHz");
  spec.memory_bandwidth = spec.tensor_flops = 1;
  EXPECT_EQ(spec.identity(), h200().identity());
  spec.sms = 114;
  EXPECT_NE(spec.identity(), h200().identity());
  EXPECT_NE(DeviceSpec::for_arch("sm_100a")->identity(), h200().identity());
  spec = h200();
  spec.memory_gb_per_s = spec.clock_mhz = 0;
  EXPECT_EQ(spec.identity(), "cuda sm_90a sms=132 smem=232448/233472 l2=62914560") << "what a driver does not say";
  EXPECT_EQ(host().identity(), "host x86-64-avx512 threads=16 l2=2097152 llc=67108864");
}

// Cards that agree in everything else, as their drivers describe them.
TEST(DeviceSpec, CardsThatDifferInARateAloneAreTwo) {
  DeviceSpec l40s = *DeviceSpec::for_arch("sm_89"), l40 = l40s;
  l40.clock_mhz = 2490;
  EXPECT_NE(l40.identity(), l40s.identity());
  DeviceSpec a100_80 = *DeviceSpec::for_arch("sm_80"), a100_40 = a100_80;
  a100_40.memory_gb_per_s = 1555;
  EXPECT_NE(a100_40.identity(), a100_80.identity());
}

}  // namespace
}  // namespace gqa

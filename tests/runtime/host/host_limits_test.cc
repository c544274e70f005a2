// host_limits_test.cc: what GQA_HOST_MAX_ISA and GQA_HOST_L2 may say, and that a process keeps to it.
#include "runtime/host/host_limits.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/host/attention/tile.h"
#include "runtime/host/program/ops.h"

namespace gqa {
namespace {

TEST(HostLimits, NothingSetIsNoLimit) {
  HostLimits limits;
  ASSERT_TRUE(parse_host_limits(nullptr, nullptr, &limits).ok());
  for (const std::string_view isa : kHostIsas) EXPECT_TRUE(limits.allow(isa));
  EXPECT_EQ(limits.l2_bytes, 0);
}

TEST(HostLimits, AllowsWhatIsNoMoreThanTheMost) {
  HostLimits limits;
  ASSERT_TRUE(parse_host_limits("avx2", "524288", &limits).ok());
  EXPECT_TRUE(limits.allow("baseline"));
  EXPECT_TRUE(limits.allow("avx2"));
  EXPECT_FALSE(limits.allow("avx512"));
  EXPECT_FALSE(limits.allow("amx"));
  EXPECT_EQ(limits.l2_bytes, 524288);
}

TEST(HostLimits, NamesWhatItDoesNotKnow) {
  HostLimits limits;
  EXPECT_EQ(parse_host_limits("sse9", nullptr, &limits).message(),
            "GQA_HOST_MAX_ISA is 'sse9': expected one of baseline, avx2, avx512, amx");
  for (const char* l2 : {"", "1M", "-1", "1", "99999999999"}) {
    const Status status = parse_host_limits(nullptr, l2, &limits);
    EXPECT_EQ(status.code(), Code::kOption) << l2;
    EXPECT_NE(status.message().find("GQA_HOST_L2"), std::string::npos) << status.message();
  }
}

// Ends the process, which has an environment of its own.
[[noreturn]] void open_and_tell(const char* max_isa, const char* l2) {
  setenv("GQA_HOST_MAX_ISA", max_isa, 1);
  setenv("GQA_HOST_L2", l2, 1);
  std::unique_ptr<Device> device;
  const Status status = open_host_device(1, &device);
  const std::string told = status.ok() ? device->spec().identity() + " ops=" + host_ops().name : status.message();
  std::fprintf(stderr, "%s\n", told.c_str());
  std::exit(0);
}

// A process a case, started anew: the variables are read once.
TEST(HostLimits, TheDeviceKeepsToThem) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(open_and_tell("baseline", "524288"), testing::ExitedWithCode(0), "-baseline .*l2=524288 .*ops=baseline");
  EXPECT_EXIT(open_and_tell("baseline", "1048576"), testing::ExitedWithCode(0), "l2=1048576 ");
  EXPECT_EXIT(open_and_tell("avx1024", "1048576"), testing::ExitedWithCode(0), "GQA_HOST_MAX_ISA is 'avx1024'");
}

}  // namespace
}  // namespace gqa

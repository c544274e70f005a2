// workspace_test.cc: partials and counters, given out by a driver whose device memory is the host's.
// Owns: that driver; growth, zeroed counters, plans that only count, what a guarded workspace notices.
// Needs no GPU and no CUDA driver.
#include "runtime/cuda/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/guarded_workspace.h"

namespace gqa {
namespace {

int allocations = 0;

CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;  // as the real one
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xcd, bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  ++allocations;
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

CUresult set_bytes(CUdeviceptr address, unsigned char value, std::size_t count, CUstream) {
  std::memset(reinterpret_cast<void*>(address), value, count);
  return CUDA_SUCCESS;
}

CUresult set_words(CUdeviceptr address, unsigned value, std::size_t count, CUstream) {
  std::fill_n(reinterpret_cast<unsigned*>(address), count, value);
  return CUDA_SUCCESS;
}

CUresult copy_back(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}

CUresult not_capturing(CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode**,
                       std::size_t*) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

Driver host_memory_driver() {
  Driver d;
  d.cuMemAlloc = allocate;
  d.cuMemFree = release;
  d.cuMemsetD8Async = set_bytes;
  d.cuMemsetD32Async = set_words;
  d.cuMemcpyDtoHAsync = copy_back;
  d.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  d.cuStreamGetCaptureInfo = not_capturing;
  d.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  d.cuGetErrorName = d.cuGetErrorString = [](CUresult, const char** text) {
    *text = "refused by the test";
    return CUDA_SUCCESS;
  };
  return d;
}

LaunchPlan plan_of(std::int64_t partials, std::int64_t counters) {
  LaunchPlan launch;
  launch.partial_floats = partials;
  launch.counters = counters;
  return launch;
}

TEST(Workspace, TheDynamicSchedulerNeedsACounterAndNoPartials) {
  Problem p;
  Candidate c;
  ASSERT_TRUE(parse("hq=8,sq=1000,d=64", &p).ok());
  c.family = Family::kWarpgroup;
  for (const int dynamic : {0, 1}) {
    c.dynamic = dynamic;
    const LaunchPlan launch = plan(p, c);
    EXPECT_EQ(launch.partial_floats, 0);
    EXPECT_EQ(launch.counters, dynamic);
    EXPECT_EQ(launch.needs_workspace(), dynamic == 1);
    EXPECT_TRUE(launch.persistent);
  }
  c = Candidate();
  EXPECT_FALSE(plan(p, c).needs_workspace());
}

TEST(Workspace, StreamKNeedsTwoPartsAWarpgroup) {
  Problem p;
  Candidate c;
  ASSERT_TRUE(parse("hq=8,sq=1000,d=64,dv=128", &p).ok());
  ASSERT_TRUE(parse("warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1 cluster=2 stream_k=5", &c).ok());
  const LaunchPlan launch = plan(p, c);
  EXPECT_EQ(launch.partial_floats, 5 * 2 * 3 * 2 * (64 * 128 + 4 * 128));
  EXPECT_EQ(launch.counters, 5 * 2 * 3);
  EXPECT_EQ(grid_of(launch, 132), 10U);  // more than there are tiles
  EXPECT_EQ(grid_of(launch, 7), 6U);
}

TEST(Workspace, APlanThatOnlyCountsGetsZeroedCounters) {
  const Driver driver = host_memory_driver();
  WorkspacePool pool(driver);
  Workspace workspace;
  const Status status = pool.take(nullptr, plan_of(0, 1), &workspace);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_NE(workspace.counters, nullptr);
  EXPECT_EQ(*workspace.counters, 0U);
}

TEST(Workspace, PartialsAndCountersGrowApart) {
  const Driver driver = host_memory_driver();
  WorkspacePool pool(driver);
  Workspace counting, partial, again, larger;
  ASSERT_TRUE(pool.take(nullptr, plan_of(0, 1), &counting).ok());
  ASSERT_TRUE(pool.take(nullptr, plan_of(1000, 10), &partial).ok());
  EXPECT_EQ(partial.counters, counting.counters);  // ten fit what the first took
  ASSERT_NE(partial.partials, nullptr);
  const int before = allocations;
  ASSERT_TRUE(pool.take(nullptr, plan_of(1400, 10), &again).ok());  // half as much again was taken
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(again.partials, partial.partials);
  ASSERT_TRUE(pool.take(nullptr, plan_of(1000, 5000), &larger).ok());
  EXPECT_EQ(allocations, before + 1);
  EXPECT_EQ(larger.partials, partial.partials);
  EXPECT_EQ(std::count(larger.counters, larger.counters + 5000, 0U), 5000);
}

TEST(GuardedWorkspace, ACounterLeftBehindIsSeenWithoutPartials) {
  const Driver driver = host_memory_driver();
  GuardedWorkspace guarded(driver);
  Workspace workspace;
  std::int64_t damaged = -1;
  ASSERT_TRUE(guarded.prepare(nullptr, plan_of(0, 1), &workspace).ok());
  ASSERT_NE(workspace.counters, nullptr);
  EXPECT_EQ(*workspace.counters, 0U);
  ASSERT_TRUE(guarded.inspect(nullptr, &damaged).ok());
  EXPECT_EQ(damaged, 0);
  *workspace.counters = 1;
  workspace.counters[1] = 0;  // the guard after it
  ASSERT_TRUE(guarded.inspect(nullptr, &damaged).ok());
  EXPECT_EQ(damaged, 2);
}

}  // namespace
}  // namespace gqa

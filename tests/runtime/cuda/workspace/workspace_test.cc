// workspace_test.cc: partials and counters, given out by a driver whose device memory is the host's.
// Owns: what a plan needs; growth, zeroed counters; who shares a workspace and who does not, live and captured; what
// becomes of those of streams and graphs that are gone; what a guarded workspace notices.
// Needs no GPU and no CUDA driver.
#include "runtime/cuda/workspace/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/cuda/trial/guarded_workspace.h"
#include "tests/runtime/cuda/workspace/stream_driver.h"

namespace gqa {
namespace {

constexpr int kKeptStreams = 16;  // the first ones of a pool keep their workspaces

LaunchPlan plan_of(std::int64_t partials, std::int64_t counters) {
  LaunchPlan launch;
  launch.partial_floats = partials;
  launch.counters = counters;
  return launch;
}

CUstream stream(std::uintptr_t number) { return reinterpret_cast<CUstream>(16 * number); }

TEST(LaunchPlans, TheDynamicSchedulerNeedsACounterAndNoPartials) {
  Problem p;
  Candidate c;
  ASSERT_TRUE(parse("hq=8,sq=1000,d=64", &p).ok());
  for (const int dynamic : {0, 1}) {
    const std::string text = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 out=0 dynamic=" + std::to_string(dynamic);
    ASSERT_TRUE(parse(text, &c).ok());
    const LaunchPlan launch = plan(p, c);
    EXPECT_EQ(launch.partial_floats, 0);
    EXPECT_EQ(launch.counters, dynamic);
    EXPECT_EQ(launch.needs_workspace(), dynamic == 1);
    EXPECT_TRUE(launch.persistent);
  }
  c = Candidate();
  EXPECT_FALSE(plan(p, c).needs_workspace());
}

TEST(LaunchPlans, StreamKNeedsTwoPartsAWarpgroup) {
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

class WorkspaceTest : public ::testing::Test {
 protected:
  // What a launch on the stream would use.
  Workspace take(CUstream on, const LaunchPlan& plan = plan_of(1000, 10)) {
    WorkspacePin pin;
    const Status status = pool_.take(on, plan, &pin);
    EXPECT_TRUE(status.ok()) << status.message();
    return pin.workspace;
  }
  // A capture of one call on each of the streams.
  test::FakeGraph* captured(std::uint64_t id, const std::vector<CUstream>& streams, std::vector<Workspace>* used) {
    test::FakeGraph* graph = nullptr;
    for (const CUstream one : streams) graph = cuda_.begin(one, id, graph);
    for (const CUstream one : streams) used->push_back(take(one));
    for (const CUstream one : streams) cuda_.end(one);
    return graph;
  }

  test::StreamDriver cuda_;
  const Driver driver_ = test::StreamDriver::driver();
  WorkspacePool pool_{driver_};
};

// ---- memory

TEST_F(WorkspaceTest, APlanThatOnlyCountsGetsZeroedCounters) {
  const Workspace workspace = take(nullptr, plan_of(0, 1));
  ASSERT_NE(workspace.counters, nullptr);
  EXPECT_EQ(*workspace.counters, 0U);
}

TEST_F(WorkspaceTest, PartialsAndCountersGrowApart) {
  const Workspace counting = take(nullptr, plan_of(0, 1)), partial = take(nullptr, plan_of(1000, 10));
  EXPECT_EQ(partial.counters, counting.counters);  // ten fit what the first took
  ASSERT_NE(partial.partials, nullptr);
  EXPECT_NE(take(nullptr, plan_of(1001, 10)).partials, partial.partials);
  const int before = cuda_.allocations;
  const Workspace grown = take(nullptr, plan_of(1500, 10));  // growing takes half as much again
  EXPECT_EQ(cuda_.allocations, before);
  const Workspace larger = take(nullptr, plan_of(1000, 5000));
  EXPECT_EQ(cuda_.allocations, before + 1);
  EXPECT_EQ(larger.partials, grown.partials);
  EXPECT_EQ(std::count(larger.counters, larger.counters + 5000, 0U), 5000);
  *partial.partials = 1;  // outgrown, and still there for work in flight
}

TEST_F(WorkspaceTest, ACaptureTakesWhatItsPlanIsSaidToTake) {
  std::vector<test::FakeGraph*> graphs;
  for (const LaunchPlan& plan : {plan_of(1000, 10), plan_of(0, 1), plan_of(48, 0), plan_of(7, 5000)}) {
    const std::size_t before = cuda_.held_bytes;
    graphs.push_back(cuda_.begin(stream(1), graphs.size() + 1));
    take(stream(1), plan);
    EXPECT_EQ(static_cast<std::int64_t>(cuda_.held_bytes - before), WorkspaceMemory::bytes_for(plan));
    take(stream(1), plan);  // another layer's
    EXPECT_EQ(static_cast<std::int64_t>(cuda_.held_bytes - before), WorkspaceMemory::bytes_for(plan));
    cuda_.end(stream(1));
  }
  for (test::FakeGraph* graph : graphs) test::StreamDriver::destroy(graph);
  EXPECT_EQ(WorkspaceMemory::bytes_for(plan_of(1000, 100)), 4400);
  EXPECT_EQ(WorkspaceMemory::bytes_for(LaunchPlan()), 0);
}

TEST_F(WorkspaceTest, AWarmCallAsksForCaptureAndStreamAndNothingElse) {
  take(stream(1));
  const std::int64_t calls = cuda_.calls;
  const int modes = cuda_.modes, allocations = cuda_.allocations;
  const std::size_t zeroed = cuda_.zeroed.size();
  for (int i = 0; i < 10; ++i) take(stream(1));
  EXPECT_EQ(cuda_.calls - calls, 2 * 10);
  EXPECT_EQ(cuda_.modes, modes);
  EXPECT_EQ(cuda_.allocations, allocations);
  EXPECT_EQ(cuda_.zeroed.size(), zeroed);
}

TEST_F(WorkspaceTest, LackOfMemoryIsToldAndForgotten) {
  for (const bool capturing : {false, true}) {
    test::FakeGraph* const graph = capturing ? cuda_.begin(stream(1), 7) : nullptr;
    cuda_.allocation = CUDA_ERROR_OUT_OF_MEMORY;
    WorkspacePin pin;
    EXPECT_EQ(pool_.take(stream(1), plan_of(1000, 10), &pin).code(), Code::kOutOfMemory);
    cuda_.allocation = CUDA_SUCCESS;
    EXPECT_NE(take(stream(1)).partials, nullptr);
    if (graph != nullptr) test::StreamDriver::destroy(graph);
  }
}

// ---- live calls

TEST_F(WorkspaceTest, StreamsHaveTheirOwn) {
  std::set<float*> partials;
  std::set<unsigned*> counters;
  for (int round = 0; round < 3; ++round)
    for (unsigned i = 0; i < 3 * kKeptStreams; ++i) {
      cuda_.finished = false;
      const Workspace workspace = take(stream(i));
      partials.insert(workspace.partials);
      counters.insert(workspace.counters);
    }
  EXPECT_EQ(partials.size(), 3u * kKeptStreams);
  EXPECT_EQ(counters.size(), 3u * kKeptStreams);
}

TEST_F(WorkspaceTest, OneHandleIsAStreamOfEachThread) {
  std::set<float*> partials;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      test::StreamDriver::thread_stream = 1000 + i;
      const Workspace first = take(CU_STREAM_PER_THREAD), second = take(CU_STREAM_PER_THREAD);
      EXPECT_EQ(first.partials, second.partials);
      const std::lock_guard lock(mutex);
      partials.insert(first.partials);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(partials.size(), 8u);
}

TEST_F(WorkspaceTest, AHandleUsedAgainIsAnotherStream) {
  cuda_.numbers[stream(1)] = 41;
  const Workspace before = take(stream(1));
  cuda_.numbers[stream(1)] = 42;
  EXPECT_NE(take(stream(1)).partials, before.partials);
}

// A stream past the first ones that is done gives its workspace to one that comes new, zeroed on its stream.
TEST_F(WorkspaceTest, StreamsThatComeAndGoDoNotAddUp) {
  for (unsigned i = 0; i < kKeptStreams; ++i) take(stream(i));
  const int before = cuda_.allocations;
  const Workspace first = take(stream(100));
  EXPECT_EQ(cuda_.allocations, before + 2);
  for (unsigned i = 101; i < 300; ++i) {
    *first.counters = 5;  // as a kernel that was stopped would leave it
    const Workspace next = take(stream(i));
    ASSERT_EQ(next.partials, first.partials);
    EXPECT_EQ(*next.counters, 0U);
    EXPECT_EQ(cuda_.zeroed.back(), stream(i));
  }
  EXPECT_EQ(cuda_.allocations, before + 2);
  EXPECT_EQ(cuda_.events, 1);
}

TEST_F(WorkspaceTest, WorkThatIsNotDoneKeepsItsWorkspace) {
  for (unsigned i = 0; i < kKeptStreams; ++i) take(stream(i));
  cuda_.finished = false;
  const Workspace running = take(stream(100));
  cuda_.finished = true;
  EXPECT_NE(take(stream(101)).partials, running.partials);
  WorkspacePin pin;  // the launch is under way
  ASSERT_TRUE(pool_.take(stream(101), plan_of(1000, 10), &pin).ok());
  const Workspace third = take(stream(102));
  EXPECT_NE(third.partials, pin.workspace.partials);
  EXPECT_NE(third.partials, running.partials);
  cuda_.recording = CUDA_ERROR_UNKNOWN;  // nobody knows when this one is done
  take(stream(102));
  cuda_.recording = CUDA_SUCCESS;
  EXPECT_NE(take(stream(103)).partials, third.partials);
  EXPECT_EQ(take(stream(100)).partials, running.partials);
}

// Each writes its number into what it was given: nobody else may have it before the pin goes. (The events of this
// driver are done as soon as they are recorded.)
TEST_F(WorkspaceTest, ThreadsAndStreamsNeverShareOne) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 20000; ++i) {
        const unsigned number = 1 + 4 * (i / 3 * 7 % 23) + t;  // a stream is a thread's own, for three calls on end
        WorkspacePin pin;
        wrong += !pool_.take(stream(number), plan_of(100 + i / 1000, 1), &pin).ok();
        unsigned* const counter = pin.workspace.counters;
        wrong += *counter != 0;
        *counter = number;
        *pin.workspace.partials = static_cast<float>(number);
        if (i % 8 == 0) std::this_thread::yield();
        wrong += *counter != number || *pin.workspace.partials != static_cast<float>(number);
        *counter = 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// ---- captured calls

TEST_F(WorkspaceTest, CapturesShareWithNobody) {
  std::vector<Workspace> used = {take(stream(1)), take(stream(2))};
  test::FakeGraph* const first = captured(7, {stream(1), stream(2)}, &used);
  test::FakeGraph* const second = captured(8, {stream(1), stream(2)}, &used);
  used.push_back(take(stream(3)));
  std::set<float*> partials;
  std::set<unsigned*> counters;
  for (const Workspace& workspace : used) {
    partials.insert(workspace.partials);
    counters.insert(workspace.counters);
  }
  EXPECT_EQ(partials.size(), 7u);
  EXPECT_EQ(counters.size(), 7u);
  EXPECT_EQ(first->objects.size(), 2u);
  test::StreamDriver::destroy(first);
  test::StreamDriver::destroy(second);
  EXPECT_EQ(take(stream(1)).partials, used[0].partials) << "live again";
}

TEST_F(WorkspaceTest, CallsInSequenceShareAndGrow) {
  test::FakeGraph* const graph = cuda_.begin(stream(1), 7);
  const Workspace first = take(stream(1)), second = take(stream(1)), larger = take(stream(1), plan_of(5000, 10));
  cuda_.end(stream(1));
  EXPECT_EQ(first.partials, second.partials);
  EXPECT_NE(first.partials, larger.partials);
  EXPECT_EQ(graph->objects.size(), 1u);
  *first.partials = 1;  // the graph's first call still writes there
  test::StreamDriver::destroy(graph);
}

TEST_F(WorkspaceTest, ADroppedGraphsWorkspaceServesTheNext) {
  std::vector<Workspace> used;
  const LaunchPlan plan = plan_of(1 << 20, 100);
  for (std::uint64_t id = 1; id <= 200; ++id) {
    test::FakeGraph* const graph = cuda_.begin(stream(1), id);
    const Workspace workspace = take(stream(1), plan);
    cuda_.end(stream(1));
    EXPECT_EQ(*workspace.counters, 0U) << "each capture zeroes its counters first";
    EXPECT_EQ(cuda_.zeroed.size(), id);
    *workspace.counters = 3;
    test::FakeGraph* const instance = test::StreamDriver::cloned(*graph);
    test::StreamDriver::destroy(graph);
    test::StreamDriver::destroy(instance);
  }
  EXPECT_LE(cuda_.most_bytes, std::size_t{5} << 20);
}

TEST_F(WorkspaceTest, MemoryOfManyGraphsIsGivenBack) {
  std::vector<test::FakeGraph*> graphs;
  std::vector<Workspace> used;
  for (std::uint64_t id = 1; id <= 50; ++id) graphs.push_back(captured(id, {stream(1)}, &used));
  const std::size_t most = cuda_.held_bytes;
  for (test::FakeGraph* graph : graphs) test::StreamDriver::destroy(graph);
  test::StreamDriver::destroy(captured(51, {stream(1)}, &used));
  EXPECT_LE(cuda_.held_bytes, most / 10);
}

TEST_F(WorkspaceTest, AnInstanceKeepsWhatItsGraphHeld) {
  std::vector<Workspace> used;
  test::FakeGraph* const graph = captured(7, {stream(1)}, &used);
  test::FakeGraph* const instance = test::StreamDriver::cloned(*graph);
  test::StreamDriver::destroy(graph);
  test::FakeGraph* const other = captured(8, {stream(1)}, &used);
  EXPECT_NE(used[1].partials, used[0].partials);
  test::StreamDriver::destroy(instance);
  test::FakeGraph* const third = captured(9, {stream(1)}, &used);
  EXPECT_EQ(used[2].partials, used[0].partials);
  test::StreamDriver::destroy(other);
  test::StreamDriver::destroy(third);
}

TEST_F(WorkspaceTest, AGraphMayOutliveThePool) {
  test::FakeGraph* graph = nullptr;
  {
    WorkspacePool pool(driver_);
    graph = cuda_.begin(stream(1), 7);
    WorkspacePin pin;
    ASSERT_TRUE(pool.take(stream(1), plan_of(1000, 10), &pin).ok());
    cuda_.end(stream(1));
  }
  test::StreamDriver::destroy(graph);
}

TEST_F(WorkspaceTest, AGraphThatCannotHoldIsRefused) {
  test::FakeGraph* const graph = cuda_.begin(stream(1), 7);
  cuda_.retention = CUDA_ERROR_INVALID_VALUE;
  WorkspacePin pin;
  const Status status = pool_.take(stream(1), plan_of(1000, 10), &pin);
  EXPECT_EQ(status.code(), Code::kDeviceFailed);
  EXPECT_NE(status.message().find("cuGraphRetainUserObject"), std::string::npos) << status.message();
  EXPECT_EQ(cuda_.held_bytes, 0u);
  cuda_.retention = CUDA_SUCCESS;
  EXPECT_NE(take(stream(1)).partials, nullptr);
  test::StreamDriver::destroy(graph);
}

// ---- trials

TEST_F(WorkspaceTest, AGuardedOneSeesACounterLeftBehindWithoutPartials) {
  GuardedWorkspace guarded(driver_);
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

// trial_stream_test.cc: what a trial's stream asks of the driver: one capture an id, launches divided into a replay's
// time, rests between replays, failures passed on, everything given back. Needs no GPU and no CUDA driver.
#include "runtime/cuda/trial/trial_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/runtime/cuda/driver/quiet_driver.h"

namespace gqa {
namespace {

struct Counts {
  int captures = 0, replays = 0, objects = 0;                // objects: streams, events and graphs there are
  CUresult query = CUDA_SUCCESS;                             // what events answer
  std::vector<std::chrono::steady_clock::time_point> begun;  // replays
};
Counts counts;
constexpr float kReplayMs = 1.5F;
CUresult memory_query = CUDA_SUCCESS;

template <typename Handle>
CUresult give(Handle* handle) {
  *handle = reinterpret_cast<Handle>(1);
  ++counts.objects;
  return CUDA_SUCCESS;
}
template <typename Handle>
CUresult take(Handle) {
  --counts.objects;
  return CUDA_SUCCESS;
}

Driver counting_driver() {
  Driver d = test::quiet_driver();
  d.cuStreamCreate = [](CUstream* stream, unsigned) { return give(stream); };
  d.cuStreamDestroy = take<CUstream>;
  d.cuMemGetInfo = [](std::size_t*, std::size_t*) { return memory_query; };
  d.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  d.cuEventCreate = [](CUevent* event, unsigned) { return give(event); };
  d.cuEventDestroy = take<CUevent>;
  d.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  d.cuEventQuery = [](CUevent) { return counts.query; };
  d.cuEventElapsedTime = [](float* milliseconds, CUevent, CUevent) {
    *milliseconds = kReplayMs;
    return CUDA_SUCCESS;
  };
  d.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    ++counts.captures;
    return CUDA_SUCCESS;
  };
  d.cuStreamEndCapture = [](CUstream, CUgraph*) { return CUDA_SUCCESS; };
  d.cuGraphInstantiate = [](CUgraphExec* graph, CUgraph, unsigned long long) { return give(graph); };
  d.cuGraphDestroy = [](CUgraph) { return CUDA_SUCCESS; };
  d.cuGraphExecDestroy = take<CUgraphExec>;
  d.cuGraphLaunch = [](CUgraphExec, CUstream) {
    ++counts.replays;
    counts.begun.push_back(std::chrono::steady_clock::now());
    return CUDA_SUCCESS;
  };
  d.cuGetErrorName = [](CUresult, const char** name) {
    *name = "NAME";
    return CUDA_SUCCESS;
  };
  d.cuGetErrorString = [](CUresult, const char** text) {
    *text = "text";
    return CUDA_SUCCESS;
  };
  return d;
}

class TrialStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    counts = {};
    ASSERT_TRUE(stream_.open().ok());
  }

  const Driver driver_ = counting_driver();
  std::atomic<std::uint64_t> cancels_ = 0;
  TrialStream stream_{driver_, "kernel", Effort(60, &cancels_)};
};

TEST_F(TrialStreamTest, CapturesOnceAnIdAndDividesAReplayByItsLaunches) {
  std::vector<int> launched;
  const auto launch = [&](int i) {
    launched.push_back(i);
    return Status();
  };
  std::vector<double> microseconds;
  ASSERT_TRUE(stream_.time(7, 3, launch, 2, &microseconds).ok());
  EXPECT_EQ(counts.replays, 2 + 1) << "the graph is uploaded once";
  counts.replays = 0;
  for (const std::uint64_t id : {7, 8}) ASSERT_TRUE(stream_.time(id, 3, launch, 2, &microseconds).ok());
  EXPECT_EQ(launched, (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(counts.captures, 2);
  EXPECT_EQ(counts.replays, 4 + 1) << "each graph is uploaded once";
  ASSERT_EQ(microseconds.size(), 6U);
  EXPECT_NEAR(microseconds[0], 500, 1e-3);
  stream_.close();
  EXPECT_EQ(counts.objects, 0);
}

TEST_F(TrialStreamTest, TheDeviceRestsAsLongAsItRan) {
  const auto launch = [](int) { return Status(); };
  std::vector<double> microseconds;
  ASSERT_TRUE(stream_.time(7, 3, launch, 3, &microseconds).ok());
  ASSERT_EQ(counts.begun.size(), 4U);
  for (std::size_t i = 1; i < counts.begun.size(); ++i) {
    const std::chrono::duration<float, std::milli> passed = counts.begun[i] - counts.begun[i - 1];
    EXPECT_GE(passed.count(), kReplayMs) << "before replay " << i;
  }
  stream_.close();
}

TEST_F(TrialStreamTest, AFailedLaunchIsNoGraph) {
  std::vector<double> microseconds;
  const auto fails = [](int) { return Status(Code::kDeviceFailed, "no"); };
  EXPECT_EQ(stream_.time(7, 3, fails, 2, &microseconds).message(), "no");
  EXPECT_TRUE(microseconds.empty());
  EXPECT_EQ(counts.replays, 0);
  stream_.close();
}

TEST_F(TrialStreamTest, WaitingEndsWhereTheEffortIsCancelled) {
  counts.query = CUDA_ERROR_NOT_READY;  // for ever
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++cancels_;
  });
  const Effort since(1);
  EXPECT_EQ(stream_.wait().code(), Code::kCancelled);
  EXPECT_LT(since.seconds(), 0.5);
  canceller.join();
  stream_.close();
}

TEST_F(TrialStreamTest, ABrokenContextIsNoKernelsFault) {
  EXPECT_TRUE(stream_.health().ok());
  memory_query = CUDA_ERROR_ILLEGAL_ADDRESS;
  const Status status = stream_.health();
  memory_query = CUDA_SUCCESS;
  EXPECT_EQ(status.code(), Code::kDeviceFailed);
  EXPECT_NE(status.message().find("text (NAME)"), std::string::npos) << status.message();
  stream_.close();
}

TEST_F(TrialStreamTest, SaysWhatFailed) {
  counts.query = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(stream_.wait().message(), "the kernel failed: text (NAME)");
  stream_.close();
}

TEST(TrialStream, ShortKernelsAreLaunchedOftener) {
  EXPECT_EQ(TrialStream::launches_a_graph(0.1, 1), 32);
  EXPECT_EQ(TrialStream::launches_a_graph(40, 4), 10);
  EXPECT_EQ(TrialStream::launches_a_graph(4000, 4), 4);
  EXPECT_EQ(TrialStream::launches_a_graph(4000, 1), 1);
}

}  // namespace
}  // namespace gqa

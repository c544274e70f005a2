// workspace_gpu_test.cc: workspaces on a GPU: who may run at once shares none, and who is gone keeps none.
// Owns: split decodes on the streams of threads, in captures that are replayed beside each other and beside live calls,
// on streams that come and go; the memory that dropped graphs leave behind.
// Each call's answer is known: the values of a call are one number, so that every output is that number.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/cuda/driver/memory.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

constexpr const char* kSplitDecode = "hq=32,hk=8,sq=1,sk=4096,d=128,dtype=f16";
constexpr const char* kSplitKernel = "split m=16 n=32 warps=4 stages=3 pack=4 splits=16";
constexpr const char* kWholeKernel = "flash m=16 n=32 warps=1 stages=2 pack=4";  // has no workspace
constexpr std::size_t kOutputs = 32 * 128;

// A decode whose values are all `value`; of a call that shares its partials some outputs would be another's.
class Decode {
 public:
  Decode(const Driver& driver, const Problem& p, std::uint16_t value) : driver_(driver), value_(value) {
    const auto rows = [](std::int64_t length, std::int64_t heads, std::int64_t dim) {
      return Strides{length * heads * dim, heads * dim, dim};
    };
    call.problem = p;
    call.scale = 0.01F;
    call.strides(Role::kQ) = rows(1, p.q_heads, p.head_dim);
    call.strides(Role::kK) = call.strides(Role::kV) = rows(p.kv_len, p.kv_heads, p.head_dim);
    call.strides(Role::kOut) = call.strides(Role::kQ);
    call.place(Role::kQ, filled(&q_, call.strides(Role::kQ).batch, 0x3c00));
    call.place(Role::kK, filled(&k_, call.strides(Role::kK).batch, 0x3c00));
    call.place(Role::kV, filled(&v_, call.strides(Role::kV).batch, value));
    call.place(Role::kOut, filled(&out_, call.strides(Role::kOut).batch, 0));
  }

  // On the legacy stream, once all work is done. Outputs that are not the value; they are wiped.
  std::size_t wrong() {
    std::vector<std::uint16_t> outputs(kOutputs);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyDtoHAsync(outputs.data(), out_.address(), 2 * kOutputs, nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemsetD8Async(out_.address(), 0xff, 2 * kOutputs, nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return kOutputs - static_cast<std::size_t>(std::count(outputs.begin(), outputs.end(), value_));
  }

  Call call;

 private:
  void* filled(DeviceMemory* memory, std::int64_t elements, std::uint16_t value) {
    const std::vector<std::uint16_t> host(static_cast<std::size_t>(elements), value);
    EXPECT_TRUE(DeviceMemory::allocate(driver_, 2 * host.size(), memory).ok());
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(memory->address(), host.data(), 2 * host.size(), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return memory->as<void>();
  }

  const Driver& driver_;
  const std::uint16_t value_;
  DeviceMemory q_, k_, v_, out_;
};

class SplitWorkspaces : public test::CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(parse(kSplitDecode, &problem_).ok());
    Candidate split, whole;
    ASSERT_TRUE(parse(kSplitKernel, &split).ok());
    ASSERT_TRUE(parse(kWholeKernel, &whole).ok());
    kernel_ = kernel_for(problem_, problem_, split, split);
    whole_ = kernel_for(problem_, problem_, whole, whole);
    ASSERT_NE(whole_, nullptr);
    ASSERT_NE(kernel_, nullptr);
    // 1, 2, 3, ... as float16: no rounding anywhere.
    constexpr std::uint16_t kValues[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
    for (const std::uint16_t value : kValues) decodes_.push_back(std::make_unique<Decode>(*driver_, problem_, value));
  }
  void TearDown() override {
    decodes_.clear();
    kernel_.reset();
    whole_.reset();
    CudaGpu::TearDown();
  }

  CUstream stream() {
    CUstream made = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }
  Status launch(std::size_t decode, CUstream on) {
    Call call = decodes_[decode]->call;
    call.stream = on;
    return kernel_->run(call);
  }
  CUgraphExec instantiated(CUgraph graph) {
    CUgraphExec instance = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&instance, graph, 0));
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuGraphDestroy(graph));
    return instance;
  }
  // A graph of the decode, so many times.
  CUgraphExec captured(std::size_t decode, CUstream on, int times) {
    CUgraph graph = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < times; ++i) EXPECT_TRUE(launch(decode, on).ok());
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(on, &graph));
    return instantiated(graph);
  }
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuMemGetInfo(&free, &total));
    return free;
  }

  // Bytes that are gone after 200 graphs of four calls each were captured, launched and dropped.
  std::size_t kept_of_graphs(CUstream one) {
    const std::size_t before = free_bytes();
    for (int i = 0; i < 200; ++i) {
      const CUgraphExec graph = captured(static_cast<std::size_t>(i) % 8, one, 4);
      EXPECT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(graph, one));
      if (i % 2 == 0) driver_->cuStreamSynchronize(one);  // else it is destroyed while it runs
      driver_->cuGraphExecDestroy(graph);
    }
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(one));
    return before - std::min(before, free_bytes());
  }

  Problem problem_;
  std::unique_ptr<LoadedProgram> kernel_, whole_;
  std::vector<std::unique_ptr<Decode>> decodes_;
};

// Each thread's calls follow each other; those of different threads run at once.
TEST_F(SplitWorkspaces, ThreadsOnTheirPerThreadStreams) {
  std::atomic<int> wrong = 0, failed = 0, ready = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < decodes_.size(); ++t)
    threads.emplace_back([&, t] {
      driver_->cuCtxPushCurrent(context_);
      std::vector<std::uint16_t> outputs(kOutputs), expected(kOutputs);
      driver_->cuMemcpyDtoHAsync(expected.data(), reinterpret_cast<CUdeviceptr>(decodes_[t]->call.at(Role::kV)),
                                 2 * kOutputs, CU_STREAM_PER_THREAD);
      for (++ready; ready < 8;) std::this_thread::yield();
      for (int i = 0; i < 200; ++i) {
        for (int queued = 0; queued < 4; ++queued) failed += !launch(t, CU_STREAM_PER_THREAD).ok();
        driver_->cuMemcpyDtoHAsync(outputs.data(), reinterpret_cast<CUdeviceptr>(decodes_[t]->call.to(Role::kOut)),
                                   2 * kOutputs, CU_STREAM_PER_THREAD);
        failed += driver_->cuStreamSynchronize(CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        wrong += outputs != expected;
        driver_->cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(decodes_[t]->call.to(Role::kOut)), 0xff, 2 * kOutputs,
                                 CU_STREAM_PER_THREAD);
      }
      CUcontext popped;
      driver_->cuCtxPopCurrent(&popped);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_EQ(wrong.load(), 0) << "of 1600";
}

TEST_F(SplitWorkspaces, CapturesOfOneStreamReplayedAtOnce) {
  const CUstream capturing = stream();
  std::vector<CUgraphExec> graphs;
  std::vector<CUstream> streams;
  for (std::size_t i = 0; i < 4; ++i) {
    graphs.push_back(captured(i, capturing, 20));
    streams.push_back(stream());
  }
  for (int replay = 0; replay < 20; ++replay) {
    for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(graphs[i], streams[i]));
    for (const CUstream one : streams) ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(one));
    for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(decodes_[i]->wrong(), 0u) << i;
  }
  for (const CUgraphExec graph : graphs) driver_->cuGraphExecDestroy(graph);
}

// One capture over two streams: its branches run at once in a single replay.
TEST_F(SplitWorkspaces, BranchesOfOneCapture) {
  const CUstream first = stream(), second = stream();
  CUevent fork = nullptr, join = nullptr;
  CUgraph graph = nullptr;
  driver_->cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING);
  driver_->cuEventCreate(&join, CU_EVENT_DISABLE_TIMING);
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  driver_->cuEventRecord(fork, first);
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamWaitEvent(second, fork, 0));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(launch(0, first).ok());
    EXPECT_TRUE(launch(1, second).ok());
  }
  driver_->cuEventRecord(join, second);
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamWaitEvent(first, join, 0));
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(first, &graph));
  const CUgraphExec instance = instantiated(graph);
  for (int replay = 0; replay < 20; ++replay) {
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(instance, first));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(first));
    ASSERT_EQ(decodes_[0]->wrong(), 0u);
    ASSERT_EQ(decodes_[1]->wrong(), 0u);
  }
  driver_->cuGraphExecDestroy(instance);
  driver_->cuEventDestroy(fork);
  driver_->cuEventDestroy(join);
}

TEST_F(SplitWorkspaces, ALiveCallBesideAReplay) {
  const CUstream capturing = stream(), live = capturing, replaying = stream();
  const CUgraphExec graph = captured(0, capturing, 50);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(graph, replaying));
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(launch(1, live).ok());
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(replaying));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(live));
    ASSERT_EQ(decodes_[0]->wrong(), 0u);
    ASSERT_EQ(decodes_[1]->wrong(), 0u);
  }
  driver_->cuGraphExecDestroy(graph);
}

// The driver keeps memory of its own for graphs: 2 MiB here, 70 in a process of PyTorch. Graphs without a workspace
// come first, to tell it from ours.
TEST_F(SplitWorkspaces, DroppedGraphsLeaveLittleBehind) {
  const CUstream one = stream();
  ASSERT_TRUE(launch(0, one).ok());
  kernel_.swap(whole_);
  ASSERT_TRUE(launch(0, one).ok());
  const std::size_t drivers = kept_of_graphs(one);
  kernel_.swap(whole_);
  const std::size_t ours = kept_of_graphs(one);
  RecordProperty("drivers_mib", static_cast<int>(drivers >> 20));
  RecordProperty("ours_mib", static_cast<int>(ours >> 20));
  EXPECT_LE(ours, std::size_t{32} << 20) << "beside the driver's " << drivers;
  for (const auto& decode : decodes_) EXPECT_EQ(decode->wrong(), 0u);
}

TEST_F(SplitWorkspaces, StreamsThatComeAndGoLeaveLittleBehind) {
  const std::size_t before = free_bytes();
  for (int i = 0; i < 200; ++i) {
    const CUstream one = stream();
    const std::size_t decode = static_cast<std::size_t>(i) % 8;
    for (int queued = 0; queued < 4; ++queued) ASSERT_TRUE(launch(decode, one).ok());
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(one));
    ASSERT_EQ(decodes_[decode]->wrong(), 0u) << i;
    driver_->cuStreamDestroy(one);
  }
  const std::size_t after = free_bytes();
  EXPECT_LE(before - std::min(before, after), std::size_t{64} << 20);
}

// More of them at once than keep a workspace for good.
TEST_F(SplitWorkspaces, ManyStreamsAtOnce) {
  std::vector<CUstream> streams;
  for (int i = 0; i < 40; ++i) streams.push_back(stream());
  for (int round = 0; round < 30; ++round) {
    for (std::size_t i = 0; i < streams.size(); i += 5)
      for (std::size_t decode = 0; decode < 5; ++decode) ASSERT_TRUE(launch(decode, streams[i + decode]).ok());
    for (const CUstream one : streams) ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(one));
    for (std::size_t decode = 0; decode < 5; ++decode) ASSERT_EQ(decodes_[decode]->wrong(), 0u) << round;
  }
  for (const CUstream one : streams) driver_->cuStreamDestroy(one);
}

}  // namespace
}  // namespace gqa

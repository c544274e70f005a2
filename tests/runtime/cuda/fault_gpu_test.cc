// fault_gpu_test.cc: cold calls on a GPU where something else goes on: another thread's capture, a fault of somebody
// else's kernel, a process that was forked, memory that others have taken.
// Each test breaks what it likes: run one a process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/driver/memory.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/session/session.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa {
namespace {

class CudaFaults : public test::CudaGpu {
 protected:
  std::unique_ptr<Session> open(const std::string& path = "", double budget = 4) {
    std::unique_ptr<Device> device;
    EXPECT_TRUE(open_cuda_device(0, "", &device).ok());
    cache::Store::Options store;
    store.path = path;
    store.mode = path.empty() ? cache::Mode::kOff : cache::Mode::kReadWrite;
    SessionOptions options;
    options.policy.budget_seconds = budget;
    options.log = [this](bool, const std::string& message) { log_ += message + "\n"; };
    return std::make_unique<Session>(std::move(device), cache::Store::open(store), options);
  }
  static Problem problem(const char* text = "hq=8,hk=2,sq=256,sk=256,d=64,dtype=f16") {
    Problem made;
    EXPECT_TRUE(parse(text, &made).ok());
    return made;
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&made, flags));
    return made;
  }
  void begin(CUstream on) { ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_GLOBAL)); }
  void expect_whole(CUstream on) {
    CUgraph graph = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(on, &graph));
    if (graph != nullptr) driver_->cuGraphDestroy(graph);
  }
  // On a thread that has no context of its own, as a framework's workers have none.
  static Status elsewhere(const std::function<Status()>& work) {
    Status status;
    std::thread([&] { status = work(); }).join();
    return status;
  }
  void write_to_nowhere() {
    const std::string ptx =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nowhere() {\n.reg .b64 %a;\n.reg .b32 %v;\n"
        "mov.u64 %a, 16;\nmov.u32 %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";
    Module module;
    CUfunction function = nullptr;
    ASSERT_TRUE(Module::load(*driver_, "", ptx, &module).ok());
    ASSERT_TRUE(module.function("nowhere", 0, &function).ok());
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    EXPECT_NE(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
  }
  static void expect_illegal_address(const Status& status) {
    EXPECT_EQ(status.code(), Code::kDeviceFailed) << status.message();
    EXPECT_NE(status.message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << status.message();
    for (const char* blamed : {"candidate", "captured", "CUBIN"})
      EXPECT_EQ(status.message().find(blamed), std::string::npos) << status.message();
  }

  std::string log_;
};

TEST_F(CudaFaults, AMissBesideAGlobalCaptureAnswersAndLeavesItWhole) {
  test::TemporaryFolder folder;
  const CUstream captured = stream();
  begin(captured);
  const Status status = elsewhere([&] {
    const auto session = open(folder.file("cache.db"));
    if (Status s = session->ready(problem()); !s.ok()) return s;
    return session->ready(problem("hq=8,hk=2,sq=1,sk=4096,d=64,dtype=f16"));
  });
  EXPECT_TRUE(status.ok()) << status.message();
  expect_whole(captured);
  begin(captured);  // what is in the cache is loaded
  EXPECT_TRUE(elsewhere([&] { return open(folder.file("cache.db"))->ready(problem()); }).ok());
  expect_whole(captured);
}

TEST_F(CudaFaults, ACallOnTheCapturedStreamIsRefusedAndTheCaptureStaysWhole) {
  const auto session = open();
  const CUstream captured = stream();
  Call call = test::call_of(problem());
  call.stream = captured;
  begin(captured);
  EXPECT_EQ(session->run(call).code(), Code::kCapturing);
  EXPECT_EQ(session->run_ready(call).code(), Code::kCapturing);
  expect_whole(captured);
}

TEST_F(CudaFaults, ACallOnTheLegacyStreamIsRefusedWhereAStreamThatWaitsForItIsCaptured) {
  const auto session = open();
  const CUstream captured = stream(CU_STREAM_DEFAULT);
  const Call call = test::call_of(problem());
  begin(captured);
  EXPECT_EQ(elsewhere([&] { return session->run(call); }).code(), Code::kCapturing);
  EXPECT_TRUE(elsewhere([&] { return session->ready(problem()); }).ok()) << "it queues nothing there";
  expect_whole(captured);
}

TEST_F(CudaFaults, AnothersFaultIsToldInTheDriversWords) {
  const auto session = open();
  write_to_nowhere();
  expect_illegal_address(session->ready(problem()));
  Call call = test::call_of(problem());
  expect_illegal_address(session->run(call));
  call.stream = CU_STREAM_PER_THREAD;
  expect_illegal_address(session->run(call));
  EXPECT_TRUE(session->store().list_winners().empty());
}

TEST_F(CudaFaults, AFaultDuringATrialIsNoCandidates) {
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {problem()}, Effort(60), &trial).ok());
  EXPECT_TRUE(trial->health().ok());
  write_to_nowhere();
  expect_illegal_address(trial->health());
}

TEST_F(CudaFaults, AForkedChildIsToldWhatItIs) {
  const pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<Device> device;
    const Status status = open_cuda_device(0, "", &device);
    const bool told = status.code() == Code::kDeviceFailed &&
                      status.message().find("CUDA_ERROR_NOT_INITIALIZED") != std::string::npos &&
                      status.message().find("forked") != std::string::npos;
    if (!told) fprintf(stderr, "%d: %s\n", static_cast<int>(status.code()), status.message().c_str());
    std::unique_ptr<Device> any;
    const bool host = open_device({}, &any).ok();
    _exit(told && !host ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- memory

class ShortMemory : public CudaFaults {
 protected:
  // Takes all but so many MiB.
  void leave(std::size_t mebibytes) {
    const std::size_t keep = mebibytes << 20;
    for (std::size_t piece = std::size_t{1} << 34; piece >= (std::size_t{1} << 21); piece /= 2) {
      while (free_bytes() > keep + piece) {
        DeviceMemory memory;
        if (!DeviceMemory::allocate(*driver_, piece, &memory).ok()) break;
        taken_.push_back(std::move(memory));
      }
    }
  }
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuMemGetInfo(&free, &total));
    return free;
  }
  void TearDown() override {
    taken_.clear();
    CudaFaults::TearDown();
  }
  void expect_nobody_blamed(const ReadyResult& readied) {
    for (const Attempt& attempt : readied.attempts)
      for (const char* blamed : {"load failed", "verify failed", "launch failed"})
        EXPECT_NE(attempt.outcome, blamed) << attempt.name << ": " << attempt.detail;
  }

  std::vector<DeviceMemory> taken_;
};

// 32 MiB of inputs a set; rotation wants five sets and more.
constexpr const char* kPrefill = "hq=32,hk=32,sq=1024,sk=1024,d=128,dtype=f16";

TEST_F(ShortMemory, SmallerTrialsCountNobodyOut) {
  test::TemporaryFolder folder;
  const auto session = open(folder.file("cache.db"));
  for (const std::size_t mebibytes : {std::size_t{400}, std::size_t{200}, std::size_t{120}}) {
    leave(mebibytes);
    ReadyResult readied;
    const Status status = open()->ready(problem(kPrefill), &readied);
    EXPECT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << mebibytes << ": " << status.message();
    expect_nobody_blamed(readied);
  }
}

TEST_F(ShortMemory, WhereNothingFitsTheErrorSaysHowMuchIsFree) {
  leave(16);
  const Status status = open()->ready(problem(kPrefill));
  EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.message();
  EXPECT_NE(status.message().find(" are free"), std::string::npos) << status.message();
  taken_.clear();
  EXPECT_TRUE(open()->ready(problem(kPrefill)).ok());
}

}  // namespace
}  // namespace gqa

// beside_captures_test.cc: what a miss asks of the driver, it asks in the mode that leaves other threads' captures
// whole; seen by a driver that keeps the mode of each thread. Needs no GPU and no CUDA driver.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/workload/programs.h"
#include "tests/runtime/cuda/driver/quiet_driver.h"
#include "tests/runtime/fake_device.h"

namespace gqa {
namespace {

CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::vector<std::string> unsafe;  // calls that would have ended another thread's capture
CUresult stream_answer = CUDA_SUCCESS, memory_answer = CUDA_SUCCESS;
CUstreamCaptureStatus stream_status = CU_STREAM_CAPTURE_STATUS_NONE;

CUresult seen(const char* what) {
  if (thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED) unsafe.push_back(what);
  return CUDA_SUCCESS;
}

Driver strict_driver() {
  Driver d = test::quiet_driver();
  d.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = reinterpret_cast<CUcontext>(1);
    return seen("cuDevicePrimaryCtxRetain");
  };
  d.cuDevicePrimaryCtxRelease = [](CUdevice) { return seen("cuDevicePrimaryCtxRelease"); };
  d.cuCtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  d.cuCtxPopCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  d.cuModuleLoadData = [](CUmodule* module, const void*) {
    *module = reinterpret_cast<CUmodule>(1);
    return seen("cuModuleLoadData");
  };
  d.cuModuleUnload = [](CUmodule) { return seen("cuModuleUnload"); };
  d.cuModuleGetFunction = [](CUfunction*, CUmodule, const char*) { return seen("cuModuleGetFunction"); };
  d.cuMemGetInfo = [](std::size_t*, std::size_t*) { return seen("cuMemGetInfo"), memory_answer; };
  d.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = stream_status;
    return stream_answer;
  };
  d.cuStreamCreate = [](CUstream*, unsigned) { return seen("cuStreamCreate"), CUDA_ERROR_OUT_OF_MEMORY; };
  d.cuGetErrorName = d.cuGetErrorString = [](CUresult, const char** text) { return *text = "words", CUDA_SUCCESS; };
  return d;
}

class BesideCapturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsafe.clear();
    stream_answer = memory_answer = CUDA_SUCCESS;
    stream_status = CU_STREAM_CAPTURE_STATUS_NONE;
    auto shared = std::make_shared<CudaShared>();
    ASSERT_TRUE(Context::retain(driver_, 0, &shared->context).ok());
    shared->workspaces = std::make_unique<WorkspacePool>(driver_);
    shared->intermediates = std::make_unique<WorkspacePool>(driver_);
    device_ = std::make_unique<CudaDevice>(0, *DeviceSpec::for_arch("sm_80"), std::move(shared), "");
  }
  void expect_safe() {
    EXPECT_EQ(unsafe, std::vector<std::string>());
    EXPECT_EQ(thread_mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "the thread's own mode comes back";
  }

  const Driver driver_ = strict_driver();
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(BesideCapturesTest, LoadingUnloadingAndClosing) {
  Candidate candidate;
  ASSERT_TRUE(parse("flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=1", &candidate).ok());
  const Program program = program_of(test::small_problem(), candidate, DeviceKind::kCuda);
  Binary binary;
  binary.cubin = "code";
  std::unique_ptr<LoadedProgram> loaded;
  ASSERT_TRUE(device_->load(program, {binary}, &loaded).ok());
  std::unique_ptr<Trial> trial;
  EXPECT_EQ(device_->make_trial({test::small_problem()}, binary, Effort(1), &trial).code(), Code::kOutOfMemory);
  loaded.reset();
  device_.reset();
  expect_safe();
}

TEST_F(BesideCapturesTest, AStreamThatIsCapturedIsNoFault) {
  bool captured = false;
  int stream = 0;
  EXPECT_TRUE(device_->capturing(&stream, &captured).ok());
  EXPECT_FALSE(captured);
  stream_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_TRUE(device_->capturing(&stream, &captured).ok());
  EXPECT_TRUE(captured);
  EXPECT_TRUE(device_->capturing(std::nullopt, &captured).ok());
  EXPECT_FALSE(captured) << "nothing is to be queued anywhere";
  stream_status = CU_STREAM_CAPTURE_STATUS_NONE;
  stream_answer = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;  // the legacy stream, which another's capture is not to wait for
  EXPECT_TRUE(device_->capturing(nullptr, &captured).ok());
  EXPECT_TRUE(captured);
  expect_safe();
}

TEST_F(BesideCapturesTest, AFaultIsNoCapture) {
  bool captured = false;
  stream_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(device_->capturing(nullptr, &captured).code(), Code::kDeviceFailed);
  EXPECT_FALSE(captured);
  memory_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(device_->capturing(std::nullopt, &captured).code(), Code::kDeviceFailed);
  std::unique_ptr<Trial> trial;
  const Status status = device_->make_trial({test::small_problem()}, Binary(), Effort(1), &trial);
  EXPECT_EQ(status.code(), Code::kDeviceFailed);
  EXPECT_NE(status.message().find("words"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace gqa

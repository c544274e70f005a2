// captured_call_test.cc: a call that is captured with the largest lengths, before a driver that captures and writes
// down: what it allocates is what it was said to, and lists are left to the device.
// Never: runs a kernel; replays with other lengths are cache_gpu_test.cc's. Needs no GPU and no CUDA driver.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/cuda/launch/cuda_program.h"
#include "runtime/workload/programs.h"
#include "tests/runtime/cuda/driver/quiet_driver.h"
#include "tests/runtime/cuda/workspace/stream_driver.h"

namespace gqa {
namespace {

std::vector<AttentionParams> captured;

Driver capturing_driver() {
  const Driver quiet = test::quiet_driver();
  Driver d = test::StreamDriver::driver();
  d.cuDevicePrimaryCtxRetain = quiet.cuDevicePrimaryCtxRetain;
  d.cuDevicePrimaryCtxRelease = quiet.cuDevicePrimaryCtxRelease;
  d.cuCtxGetCurrent = quiet.cuCtxGetCurrent;
  d.cuModuleLoadData = quiet.cuModuleLoadData;
  d.cuModuleUnload = quiet.cuModuleUnload;
  d.cuModuleGetFunction = quiet.cuModuleGetFunction;
  d.cuFuncSetAttribute = quiet.cuFuncSetAttribute;
  d.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void** arguments, void**) {
    captured.push_back(*static_cast<const AttentionParams*>(arguments[0]));
    return CUDA_SUCCESS;
  };
  return d;
}

template <typename Type>
Type* anywhere(std::uintptr_t address) {
  return reinterpret_cast<Type*>(address);
}

class CapturedCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    captured.clear();
    ASSERT_TRUE(Context::retain(driver_, 0, &shared_->context).ok());
    shared_->workspaces = std::make_unique<WorkspacePool>(driver_);
    shared_->intermediates = std::make_unique<WorkspacePool>(driver_);
    shared_->sms = 132;
  }

  void load(const char* problem, const char* text) {
    Candidate candidate;
    ASSERT_TRUE(parse(problem, &call_.problem).ok());
    ASSERT_TRUE(parse(text, &candidate).ok());
    Binary binary;
    binary.cubin = "not looked at";
    const Program program = program_of(call_.problem, candidate, DeviceKind::kCuda);
    ASSERT_TRUE(CudaProgram::load(shared_, program, {binary}, &program_).ok());
  }

  void TearDown() override {
    for (test::FakeGraph* graph : graphs_) test::StreamDriver::destroy(graph);
  }

  // Tensors and lists that the host can not read.
  void point(std::uintptr_t stream) {
    for (const Role role : {Role::kQ, Role::kK, Role::kV}) call_.place(role, anywhere<void>(0x10));
    call_.place(Role::kOut, anywhere<void>(0x20));
    for (const Role role : {Role::kQStarts, Role::kKStarts, Role::kQLengths}) call_.place(role, anywhere<void>(0x30));
    call_.q_rows = call_.k_rows = 100;
    for (const Role role : {Role::kKvLengths, Role::kPageTable}) call_.place(role, anywhere<void>(0x40));
    call_.scale = 1;
    call_.stream = anywhere<void>(stream);
  }

  test::StreamDriver cuda_;
  const Driver driver_ = capturing_driver();
  std::shared_ptr<CudaShared> shared_ = std::make_shared<CudaShared>();
  Call call_;
  std::unique_ptr<LoadedProgram> program_;
  std::vector<test::FakeGraph*> graphs_;
};

TEST_F(CapturedCalls, TakeTheWorkspaceThatTheyAreSaidToAndReadNoList) {
  const struct {
    const char *problem, *candidate;
    bool needs;
  } cases[] = {
      {"b=4,hq=32,hk=8,sq=1,sk=4096,d=128,causal,lens,page=16", "split m=16 n=32 warps=4 stages=3 pack=4 splits=8",
       true},
      {"b=4,hq=32,hk=8,sq=2,sk=900,d=128,causal,packq,packk", "split m=16 n=32 warps=4 stages=3 pack=4 splits=3", true},
      {"b=5,hq=8,hk=2,sq=300,sk=900,d=128,causal,packq,packk", "flash m=128 n=64 warps=4 stages=2 pack=1", false}};
  std::uint64_t capture = 0;
  for (const auto& [problem, candidate, needs] : cases) {
    ASSERT_NO_FATAL_FAILURE(load(problem, candidate));
    const std::int64_t bytes = program_->workspace_bytes(call_);
    EXPECT_EQ(bytes > 0, needs) << candidate;
    for (const std::uintptr_t stream : {16, 32}) {
      const std::size_t before = cuda_.held_bytes;
      point(stream);
      test::FakeGraph* const graph = cuda_.begin(static_cast<CUstream>(call_.stream), ++capture);
      for (int layer = 0; layer < 3; ++layer) ASSERT_TRUE(program_->run(call_).ok()) << candidate;
      cuda_.end(static_cast<CUstream>(call_.stream));
      EXPECT_EQ(static_cast<std::int64_t>(cuda_.held_bytes - before), bytes) << candidate;
      EXPECT_EQ(captured.back().partials != nullptr, needs) << candidate;
      graphs_.push_back(graph);
    }
  }
  EXPECT_EQ(captured.size(), 3U * 2 * 3);
  EXPECT_NE(captured[0].partials, captured[3].partials);  // two graphs at once
}

}  // namespace
}  // namespace gqa

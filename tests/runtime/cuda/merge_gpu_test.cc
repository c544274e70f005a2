// merge_gpu_test.cc: states merged on a GPU against float64: every type and layout, by the kernel that the device
// compiles; in a graph, replayed on other numbers.
#include <string>

#include "runtime/session/session.h"
#include "runtime/verify/merge_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

class MergeGpu : public test::CudaGpu {
 protected:
  std::unique_ptr<Session> session() {
    return std::make_unique<Session>(std::move(device_), cache::Store::open({"", cache::Mode::kOff, 10}),
                                     SessionOptions());
  }
};

TEST_F(MergeGpu, MergesAsFloat64Does) {
  std::unique_ptr<LoadedProgram> merger;
  ASSERT_TRUE(compile_and_load(*device_, program_of(Operation::kMergeStates, DeviceKind::kCuda), &merger).ok());
  std::vector<MergeSizes> all(merge_sizes().begin(), merge_sizes().end());
  all.push_back({ElementType::kBF16, 8, 4, 500, 32, 128, 0});
  all.push_back({ElementType::kF32, 2, 1, 3000, 8, 256, 0});
  for (const MergeSizes& sizes : all) {
    MergeCase one(sizes);
    test::CudaMemory memory(*driver_);
    const Verdict verdict = verify(&one, *merger, &memory);
    EXPECT_TRUE(verdict.passed) << verdict.reason;
  }
}

TEST_F(MergeGpu, ItsTrialPassesItAndRefusesAWrongWeight) {
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {Operation::kMergeStates}, Effort(60), &trial).ok());
  for (const bool right : {true, false}) {
    Program program = program_of(Operation::kMergeStates, DeviceKind::kCuda);
    if (!right) program.sources.front().text.insert(0, "#define fmaf(a, b, c) ((a) * (b) * 1.01f + (c))\n");
    std::unique_ptr<LoadedProgram> merger;
    const Status status = compile_and_load(*device_, program, &merger);
    ASSERT_TRUE(status.ok()) << status.message();
    const Verdict verdict = trial->verify(*merger);
    EXPECT_EQ(verdict.passed, right) << verdict.reason;
    EXPECT_EQ(verdict.reason.starts_with("out: element"), !right) << verdict.reason;
  }
}

TEST_F(MergeGpu, ACapturedCallReplaysOnOtherNumbers) {
  const auto merging = session();
  MergeCase t({ElementType::kBF16, 40, 2, 5, 4, 64, 0});
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  test::CudaMemory memory(*driver_, stream);
  ASSERT_TRUE(t.place(&memory).ok());
  const auto capture = [&](CUgraph* graph) {
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const Status status = merging->merge(t.call());
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(stream, graph));
    return status;
  };
  CUgraph graph = nullptr;
  EXPECT_EQ(Code::kCapturing, capture(&graph).code()) << "before the kernel is there";
  if (graph != nullptr) driver_->cuGraphDestroy(graph);
  ASSERT_TRUE(merging->ready(Operation::kMergeStates).ok());
  ASSERT_TRUE(capture(&graph).ok());
  CUgraphExec executable = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&executable, graph, 0));
  struct Replays final : LoadedProgram {
    Status run(const ProgramCall&) const override {
      EXPECT_EQ(CUDA_SUCCESS, driver->cuGraphLaunch(graph, stream));
      return {};
    }
    const Driver* driver;
    CUgraphExec graph;
    CUstream stream;
  } replays;
  replays.driver = driver_;
  replays.graph = executable;
  replays.stream = stream;
  for (const float shift : {0.F, 2.F}) {
    t.shift_row(4, shift);
    memory.rewind();
    const Verdict verdict = verify(&t, replays, &memory);
    EXPECT_TRUE(verdict.passed) << shift << ": " << verdict.reason;
  }
  driver_->cuGraphExecDestroy(executable);
  driver_->cuGraphDestroy(graph);
  driver_->cuStreamDestroy(stream);
}

}  // namespace
}  // namespace gqa

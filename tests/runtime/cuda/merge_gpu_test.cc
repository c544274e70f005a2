// merge_gpu_test.cc: states merged on a GPU against float64: every type and layout, by the kernel that the device
// compiles; in a graph, replayed on other numbers.
#include <string>

#include "runtime/session/session.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/merge_case.h"

namespace gqa {
namespace {

using test::MergeCase;
using test::MergeSizes;

// A case's buffers on the device. Needs the context to be current.
class MergeCopy {
 public:
  MergeCopy(const Driver& driver, MergeCase* t) : driver_(driver), case_(t), call_(t->call), parts_(t->parts) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      parts_[part].out = moved(t->outs[part]);
      parts_[part].lse = static_cast<float*>(moved(t->lses[part]));
    }
    call_.parts = parts_.data();
    call_.merged.out = moved(t->out);
    call_.merged.lse = static_cast<float*>(moved(t->lse));
  }
  ~MergeCopy() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  MergeCopy(const MergeCopy&) = delete;
  MergeCopy& operator=(const MergeCopy&) = delete;

  MergeCall& call() { return call_; }
  void fetch(CUstream stream = nullptr) {
    fetch(&case_->out, call_.merged.out, stream);
    fetch(&case_->lse, call_.merged.lse, stream);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(stream));
  }
  // Another case's numbers in this one's memory.
  void bring(const MergeCase& other, CUstream stream) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      bring(other.outs[part], parts_[part].out, stream);
      bring(other.lses[part], parts_[part].lse, stream);
    }
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(stream));
  }

 private:
  template <typename Element>
  void* moved(const std::vector<Element>& host) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address, host.size() * sizeof(Element)));
    memory_.push_back(address);
    bring(host, reinterpret_cast<void*>(address), nullptr);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return reinterpret_cast<void*>(address);
  }
  template <typename Element>
  void bring(const std::vector<Element>& host, void* to, CUstream stream) {
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), host.data(),
                                                      host.size() * sizeof(Element), stream));
  }
  template <typename Element>
  void fetch(std::vector<Element>* host, const void* from, CUstream stream) {
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyDtoHAsync(host->data(), reinterpret_cast<CUdeviceptr>(from),
                                                      host->size() * sizeof(Element), stream));
  }

  const Driver& driver_;
  MergeCase* case_;
  MergeCall call_;
  std::vector<AttentionState> parts_;
  std::vector<CUdeviceptr> memory_;
};

// As many launches as such a call takes: 32 parts, then 31 beside what is merged.
int launches(int parts) { return parts <= 32 ? 1 : 1 + (parts - 32 + 30) / 31; }

class MergeGpu : public test::CudaGpu {
 protected:
  std::unique_ptr<Session> session() {
    return std::make_unique<Session>(std::move(device_), cache::Store::open({"", cache::Mode::kOff, 10}),
                                     SessionOptions());
  }
};

TEST_F(MergeGpu, MergesAsFloat64Does) {
  const auto merging = session();
  std::vector<MergeSizes> all = test::merge_sizes();
  all.push_back({ElementType::kBF16, 8, 4, 500, 32, 128, 0});
  all.push_back({ElementType::kF32, 2, 1, 3000, 8, 256, 0});
  for (const MergeSizes& sizes : all) {
    MergeCase t(sizes);
    MergeCopy copy(*driver_, &t);
    const Status status = merging->merge(copy.call());
    ASSERT_TRUE(status.ok()) << text_of(sizes) << ": " << status.message();
    copy.fetch();
    EXPECT_TRUE(t.right(launches(sizes.count))) << text_of(sizes);
  }
}

TEST_F(MergeGpu, ACapturedCallReplaysOnOtherNumbers) {
  const auto merging = session();
  const MergeSizes sizes = {ElementType::kBF16, 40, 2, 5, 4, 64, 0};
  MergeCase t(sizes);
  MergeCopy copy(*driver_, &t);
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  copy.call().stream = stream;
  const auto capture = [&](CUgraph* graph) {
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const Status status = merging->merge(copy.call());
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(stream, graph));
    return status;
  };
  CUgraph graph = nullptr;
  EXPECT_EQ(Code::kCapturing, capture(&graph).code()) << "before the kernel is there";
  if (graph != nullptr) driver_->cuGraphDestroy(graph);
  ASSERT_TRUE(merging->ready_to_merge().ok());
  ASSERT_TRUE(capture(&graph).ok());
  CUgraphExec executable = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&executable, graph, 0));
  for (const float shift : {0.F, 2.F}) {
    for (std::vector<float>& lses : t.lses) lses[3] += shift;
    copy.bring(t, stream);
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(executable, stream));
    copy.fetch(stream);
    EXPECT_TRUE(t.right(launches(sizes.count))) << shift;
  }
  driver_->cuGraphExecDestroy(executable);
  driver_->cuGraphDestroy(graph);
  driver_->cuStreamDestroy(stream);
}

}  // namespace
}  // namespace gqa

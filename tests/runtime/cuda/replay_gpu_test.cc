// replay_gpu_test.cc: calls that are captured once with the largest lengths and replayed with others, in the same
// memory, against the naive loop on the CPU: the split of work follows the lengths on the device.
// Owns: such memory, and one graph for each family's best kernels.
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/cache_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using Lengths = std::vector<std::int32_t>;

// Device memory for a case and any other of its problem that is no larger. Needs the context to be current.
class ReplayedCase {
 public:
  ReplayedCase(const Driver& driver, const test::CacheCase& largest, CUstream stream)
      : driver_(driver), stream_(stream), call_(largest.call) {
    for (const auto& [data, bytes] : spans(largest)) {
      EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&memory_.emplace_back(), bytes + 1));
      sizes_.push_back(bytes);
    }
    call_.stream = stream;
    call_.place(Role::kQ, at<void>(0));
    call_.place(Role::kK, at<void>(1));
    call_.place(Role::kV, at<void>(2));
    call_.place(Role::kOut, at<void>(3));
    if (call_.has(Role::kLse)) call_.place(Role::kLse, at<float>(4));
    std::size_t number = 5;
    for (const Role list : {Role::kKvLengths, Role::kPageTable, Role::kQStarts, Role::kKStarts, Role::kQLengths}) {
      if (call_.has(list)) call_.place(list, at<std::int32_t>(number));
      ++number;
    }
    put(largest);
  }
  ~ReplayedCase() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  ReplayedCase(const ReplayedCase&) = delete;
  ReplayedCase& operator=(const ReplayedCase&) = delete;

  const Call& call() const { return call_; }
  void put(const test::CacheCase& t) {
    const auto all = spans(t);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_LE(all[i].second, sizes_[i]);
      ASSERT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(memory_[i], all[i].first, all[i].second, stream_));
    }
    ASSERT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(stream_));
  }
  void fetch(test::CacheCase* t) {
    driver_.cuMemcpyDtoHAsync(t->out.data(), memory_[3], t->out.size() * 2, stream_);
    driver_.cuMemcpyDtoHAsync(t->lse.data(), memory_[4], t->lse.size() * 4, stream_);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(stream_));
  }

 private:
  using Span = std::pair<const void*, std::size_t>;  // and its bytes
  template <typename Element>
  static Span span(const std::vector<Element>& data) {
    return {data.data(), data.size() * sizeof(Element)};
  }
  static std::vector<Span> spans(const test::CacheCase& t) {
    return {span(t.q),       span(t.k),     span(t.v),        span(t.out),      span(t.lse),
            span(t.lengths), span(t.table), span(t.q_starts), span(t.k_starts), span(t.packing.queries)};
  }
  template <typename Type>
  Type* at(std::size_t place) {
    return reinterpret_cast<Type*>(memory_[place]);
  }

  const Driver& driver_;
  const CUstream stream_;
  Call call_;
  std::vector<CUdeviceptr> memory_;
  std::vector<std::size_t> sizes_;
};

class ReplayGpu : public test::CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    if (stream_ != nullptr) driver_->cuStreamDestroy(stream_);
    CudaGpu::TearDown();
  }

  CUgraphExec captured(const LoadedProgram& kernel, const Call& call) {
    CUgraph graph = nullptr;
    CUgraphExec instance = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const Status status = kernel.run(call);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(stream_, &graph));
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&instance, graph, 0));
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuGraphDestroy(graph));
    return instance;
  }

  // Sequence by sequence; queries are empty where they are not packed.
  struct Sequences {
    Lengths keys, queries;
  };
  void expect_replays(const std::string& text, const std::vector<Sequences>& others) {
    const Problem p = test::problem_of(text);
    const auto each = static_cast<std::size_t>(p.batch);
    const test::CacheCase largest(to_text(p), Lengths(each, p.kv_len), false,
                                  {p.q_packed() ? Lengths(each, p.q_len) : Lengths()});
    for (const test::Compiled& one : test::compile_all(*device_, p, best(p, 2))) {
      std::unique_ptr<LoadedProgram> kernel;
      ASSERT_TRUE(one.status.ok()) << one.status.message();
      ASSERT_TRUE(load(p, one.candidate, one.binary, &kernel).ok());
      ReplayedCase memory(*driver_, largest, stream_);
      CUgraphExec graph = captured(*kernel, memory.call());
      for (const auto& [keys, queries] : others) {
        test::CacheCase t(to_text(p), keys, false, {queries});
        ASSERT_NO_FATAL_FAILURE(memory.put(t));
        ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(graph, stream_));
        memory.fetch(&t);
        EXPECT_TRUE(t.right()) << text << " | " << to_text(one.candidate);
      }
      driver_->cuGraphExecDestroy(graph);
    }
  }

  CUstream stream_ = nullptr;
};

TEST_F(ReplayGpu, Decodes) {
  for (const char* more :
       {",causal,lens,page=16", ",causal,lens,page=7", ",causal,lens", ",left=40,causal,lens,page=16"})
    expect_replays("b=6,hq=8,hk=2,sq=2,sk=700,d=128" + std::string(more),
                   {{{700, 1, 0, 33, 2, 699}, {}}, {{0, 0, 0, 0, 0, 0}, {}}, {{16, 17, 15, 700, 700, 128}, {}}});
}

TEST_F(ReplayGpu, Prefills) {
  for (const char* more : {",causal,lens,page=16", ",lens"})
    expect_replays("b=4,hq=4,hk=2,sq=150,sk=300,d=64" + std::string(more),
                   {{{300, 1, 0, 33}, {}}, {{0, 0, 0, 0}, {}}, {{16, 151, 150, 300}, {}}});
}

// Log-sum-exp's rows would lie elsewhere in each case.
TEST_F(ReplayGpu, PackedSequences) {
  for (const char* more : {",causal,packq,packk,lse=0", ",causal,packq,lens,page=16,lse=0"}) {
    expect_replays("b=4,hq=4,hk=2,sq=150,sk=300,d=64" + std::string(more),
                   {{{300, 7, 0, 33}, {150, 0, 3, 1}}, {{20, 0, 1, 140}, {0, 5, 90, 149}}});
    expect_replays("b=4,hq=8,hk=2,sq=2,sk=300,d=128" + std::string(more),
                   {{{300, 7, 0, 33}, {2, 0, 1, 1}}, {{20, 0, 1, 140}, {0, 2, 2, 1}}});
  }
}

}  // namespace
}  // namespace gqa

// pages_gpu_test.cc: a page pool's copies on a GPU: the page in each tensor and nothing else, in the stream's order;
// none into a capture.
#include <numeric>

#include "runtime/pages/page_pool.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

constexpr std::int64_t kPagesOnGpu = 5, kPageTokens = 8, kPageElements = kPageTokens * 2 * 64;
using Words = std::vector<std::uint16_t>;

class PagesGpu : public test::CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (CUdeviceptr& cache : caches_) {
      ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemAlloc(&cache, kPagesOnGpu * kPageElements * 2));
      View view;
      view.rank = 4;
      view.element = 2;
      view.data = cache;
      view.size = {kPagesOnGpu, kPageTokens, 2, 64};
      view.stride = {kPageElements, 128, 64, 1};
      views_.push_back(view);
    }
  }
  void TearDown() override {
    if (driver_ != nullptr && context_ != nullptr) {
      for (const CUdeviceptr cache : caches_) driver_->cuMemFree(cache);
      if (stream_ != nullptr) driver_->cuStreamDestroy(stream_);
    }
    CudaGpu::TearDown();
  }
  // Numbers of its own in each element.
  static Words numbers() {
    Words words(kPagesOnGpu * kPageElements);
    std::iota(words.begin(), words.end(), std::uint16_t{1});
    return words;
  }
  // Sequences that share page 0, which has 3 tokens.
  std::pair<std::int64_t, std::int64_t> sharing(PagePool* pool) const {
    const std::int64_t first = pool->add();
    std::int64_t second = 0;
    const std::int32_t tokens = 3;
    EXPECT_TRUE(pool->append({&first, 1}, &tokens, stream_).ok());
    EXPECT_TRUE(pool->share(first, -1, &second).ok());
    return {first, second};
  }

  CUstream stream_ = nullptr;
  CUdeviceptr caches_[2] = {0, 0};
  std::vector<View> views_;
};

TEST_F(PagesGpu, CopiesThePageInEveryTensorInTheStreamsOrder) {
  PagePool pool(*device_, views_);
  const std::int64_t second = sharing(&pool).second;
  const Words written = numbers();
  for (const CUdeviceptr cache : caches_)
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemcpyHtoDAsync(cache, written.data(), written.size() * 2, stream_));
  const std::int32_t tokens = 1;
  ASSERT_TRUE(pool.append({&second, 1}, &tokens, stream_).ok());
  Words expected = written;
  std::copy(written.begin(), written.begin() + kPageElements, expected.begin() + kPageElements);
  for (const CUdeviceptr cache : caches_) {
    Words read(written.size());
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemcpyDtoHAsync(read.data(), cache, read.size() * 2, stream_));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(stream_));
    EXPECT_EQ(read, expected);
  }
}

TEST_F(PagesGpu, NoCopyGoesIntoACapture) {
  PagePool pool(*device_, views_);
  const std::int64_t second = sharing(&pool).second, alone = pool.add();
  const std::int32_t tokens = 1;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(Code::kCapturing, pool.append({&second, 1}, &tokens, stream_).code());
  EXPECT_TRUE(pool.append({&alone, 1}, &tokens, stream_).ok());
  CUgraph graph = nullptr;
  EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(stream_, &graph)) << "the capture is whole";
  if (graph != nullptr) driver_->cuGraphDestroy(graph);
  EXPECT_TRUE(pool.append({&second, 1}, &tokens, stream_).ok());
}

}  // namespace
}  // namespace gqa

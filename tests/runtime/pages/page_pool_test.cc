// page_pool_test.cc: copies of shared pages in tensors of every layout; a copy that fails; many threads.
#include "runtime/pages/page_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/runtime/fake_device.h"

namespace gqa::test {
namespace {

// Host memory, and a stream that is noted.
class CopyingDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;
  Status copy(void* to, const void* from, std::size_t bytes, void* stream) const override {
    if (failing) return {Code::kDeviceFailed, "cuMemcpyDtoDAsync: unspecified launch failure"};
    std::memcpy(to, from, bytes);
    ++copies;
    streams.insert(stream);
    return {};
  }
  mutable int copies = 0;
  mutable std::set<void*> streams;
  bool failing = false;
};

constexpr std::int64_t kPages = 6, kPage = 4, kHeads = 3, kDim = 8;

// (pages, page, kv_heads, head_dim) over one buffer.
struct Layout {
  const char* name;
  std::int64_t elements, offset;
  std::array<std::int64_t, 4> strides;
  int pieces;  // a page's
};
const Layout kLayouts[] = {
    {"dense", kPages* kPage* kHeads* kDim, 0, {kPage * kHeads * kDim, kHeads* kDim, kDim, 1}, 1},
    {"heads first", kPages* kPage* kHeads* kDim, 0, {kPage * kHeads * kDim, kDim, kPage* kDim, 1}, 1},
    {"beside the values",
     2 * kPages* kPage* kHeads* kDim,
     kPage* kHeads* kDim,
     {2 * kPage * kHeads * kDim, kHeads* kDim, kDim, 1},
     1},
    {"values inside a token",
     2 * kPages* kPage* kHeads* kDim,
     0,
     {2 * kPage * kHeads * kDim, 2 * kHeads* kDim, kDim, 1},
     kPage},
    {"padded heads", kPages* kPage* kHeads * 11, 0, {kPage * kHeads * 11, kHeads * 11, 11, 1}, kPage* kHeads},
    {"every second element",
     2 * kPages* kPage* kHeads* kDim,
     0,
     {2 * kPage * kHeads * kDim, 2 * kHeads* kDim, 2 * kDim, 2},
     kPage* kHeads* kDim},
    {"pages last to first",
     kPages* kPage* kHeads* kDim,
     (kPages - 1) * kPage* kHeads* kDim,
     {-kPage * kHeads * kDim, kHeads* kDim, kDim, 1},
     1},
    {"tokens last to first",
     kPages* kPage* kHeads* kDim,
     (kPage - 1) * kHeads* kDim,
     {kPage * kHeads * kDim, -kHeads* kDim, kDim, 1},
     1},
};

struct Cache {
  explicit Cache(const Layout& given) : layout(given), data(static_cast<std::size_t>(given.elements)) {
    std::iota(data.begin(), data.end(), std::uint16_t{1});
    view.name = "cache";
    view.rank = 4;
    view.element = 2;
    view.size = {kPages, kPage, kHeads, kDim};
    view.stride = given.strides;
    view.data = reinterpret_cast<std::uintptr_t>(data.data() + given.offset);
  }
  // Its place in `data`.
  std::size_t at(std::int64_t page, std::int64_t token, std::int64_t head, std::int64_t d) const {
    const auto& s = layout.strides;
    return static_cast<std::size_t>(layout.offset + page * s[0] + token * s[1] + head * s[2] + d * s[3]);
  }

  const Layout& layout;
  std::vector<std::uint16_t> data;
  View view;
};

class PagePoolTest : public ::testing::Test {
 protected:
  // Two sequences that share a page that is not full: number 0.
  std::pair<std::int64_t, std::int64_t> sharing(PagePool* pool) {
    const std::int64_t first = pool->add();
    std::int64_t second = 0;
    const std::int32_t tokens = 2;
    EXPECT_TRUE(pool->append({&first, 1}, &tokens, nullptr).ok());
    EXPECT_TRUE(pool->share(first, -1, &second).ok());
    return {first, second};
  }

  FakeWorld world_;
  CopyingDevice device_{&world_};
};

TEST_F(PagePoolTest, CopiesThePageAndNothingElseInEveryLayout) {
  for (const Layout& layout : kLayouts) {
    Cache cache(layout);
    PagePool pool(device_, {cache.view});
    const std::int64_t second = sharing(&pool).second;
    std::vector<std::uint16_t> expected = cache.data;
    for (std::int64_t token = 0; token < kPage; ++token)
      for (std::int64_t head = 0; head < kHeads; ++head)
        for (std::int64_t d = 0; d < kDim; ++d)
          expected[cache.at(1, token, head, d)] = cache.data[cache.at(0, token, head, d)];
    device_.copies = 0;
    const std::int32_t tokens = 1;
    ASSERT_TRUE(pool.append({&second, 1}, &tokens, nullptr).ok());
    EXPECT_EQ(cache.data, expected) << layout.name;
    EXPECT_EQ(device_.copies, layout.pieces) << layout.name;
  }
}

TEST_F(PagePoolTest, CopiesInEveryCacheOnTheStreamGiven) {
  std::vector<Cache> caches;
  for (int layer = 0; layer < 6; ++layer) caches.emplace_back(kLayouts[layer % 2]);
  std::vector<View> views;
  for (const Cache& cache : caches) views.push_back(cache.view);
  PagePool pool(device_, views);
  const std::int64_t second = sharing(&pool).second;
  const std::int32_t tokens = 1;
  EXPECT_EQ(device_.copies, 0);
  ASSERT_TRUE(pool.append({&second, 1}, &tokens, &world_).ok());
  EXPECT_EQ(device_.copies, 6);
  EXPECT_EQ(device_.streams, std::set<void*>{&world_});
  for (const Cache& cache : caches) EXPECT_EQ(cache.data[cache.at(1, 1, 2, 3)], cache.data[cache.at(0, 1, 2, 3)]);
}

TEST_F(PagePoolTest, ACopyThatFailsLeavesAllAsBefore) {
  Cache cache(kLayouts[0]);
  PagePool pool(device_, {cache.view});
  const auto [first, second] = sharing(&pool);
  const std::int64_t both[] = {first, second};
  const std::int32_t tokens[] = {9, 1};
  device_.failing = true;
  EXPECT_EQ(pool.append(both, tokens, nullptr).code(), Code::kDeviceFailed);
  EXPECT_EQ(pool.free_pages(), 5);
  std::int32_t table[2] = {7, 7}, lengths[2];
  ASSERT_TRUE(pool.table(both, 1, table, lengths).ok());
  EXPECT_EQ(table[0], table[1]);
  EXPECT_EQ(lengths[0] + lengths[1], 4);
  device_.failing = false;
  EXPECT_TRUE(pool.append(both, tokens, nullptr).ok());
}

TEST_F(PagePoolTest, NoCopyGoesIntoACapture) {
  Cache cache(kLayouts[0]);
  PagePool pool(device_, {cache.view});
  const auto [first, second] = sharing(&pool);
  const std::int32_t tokens = 1;
  world_.capturing = [](void* stream) { return stream != nullptr; };
  const Status status = pool.append({&second, 1}, &tokens, &world_);
  EXPECT_EQ(status.code(), Code::kCapturing);
  EXPECT_NE(status.message().find("append before the capture begins"), std::string::npos) << status.message();
  EXPECT_EQ(device_.copies, 0);
  EXPECT_EQ(pool.free_pages(), 5);
  const std::int64_t alone = pool.add();
  EXPECT_TRUE(pool.append({&alone, 1}, &tokens, &world_).ok()) << "it copies nothing";
  EXPECT_TRUE(pool.append({&first, 1}, &tokens, nullptr).ok());
}

TEST_F(PagePoolTest, ServesManyThreads) {
  Cache cache(kLayouts[0]);
  PagePool pool(device_, {cache.view});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const std::int64_t mine = pool.add();
        const std::int32_t tokens = 3;
        std::int64_t copy = mine;
        const bool fits = pool.append({&mine, 1}, &tokens, nullptr).ok();
        EXPECT_TRUE(fits);
        EXPECT_TRUE(pool.share(mine, -1, &copy).ok());
        const std::int64_t both[] = {mine, copy};
        EXPECT_TRUE(pool.free(both).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.free_pages(), kPages);
}

}  // namespace
}  // namespace gqa::test

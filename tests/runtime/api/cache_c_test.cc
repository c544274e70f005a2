// cache_c_test.cc: calls on a key/value cache through libgqa.so and gqa.h alone: pages and lengths end to end, a
// growing cache that tunes nothing, checked handles, and structs of headers before lengths and pages.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"

namespace {

// One head and sequences of at most 6 keys in pages of 2. All scores are equal, and the value of key j of sequence b is
// 8 b + j: the output is the mean of what a query sees. Page 3 and unused slots hold NaN.
struct TinyCache {
  static constexpr int kDim = 32, kPages = 6;
  std::vector<std::uint16_t> q = halves(2, 0), k = halves(2 * kPages, 0), v, out = halves(2, 0xffff);
  std::vector<std::int32_t> lengths = {5, 2}, table = {4, 0, 5, 1, 77, -9};
  std::int64_t q_shape[4] = {2, 1, 1, kDim}, kv_shape[4] = {kPages, 2, 1, kDim}, list_shape[2] = {2, 3};
  DLTensor q_tensor, k_tensor, v_tensor, out_tensor, lengths_tensor, table_tensor;
  gqa_call call = {};

  TinyCache() {
    for (int slot = 0; slot < 2 * kPages; ++slot) {
      constexpr int kMeant[2 * kPages] = {2, 3, 8, 9, -1, -1, -1, -1, 0, 1, 4, -1};  // of pages 0 to 5; -1: NaN
      for (int d = 0; d < kDim; ++d) v.push_back(bfloat16(kMeant[slot]));
      if (kMeant[slot] < 0) std::memset(&k[static_cast<std::size_t>(slot * kDim)], 0xff, 2 * kDim);
    }
    const DLDataType bf16 = {kDLBfloat, 16, 1}, int32 = {kDLInt, 32, 1};
    q_tensor = {q.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0};
    k_tensor = {k.data(), {kDLCPU, 0}, 4, bf16, kv_shape, nullptr, 0};
    v_tensor = {v.data(), {kDLCPU, 0}, 4, bf16, kv_shape, nullptr, 0};
    out_tensor = {out.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0};
    lengths_tensor = {lengths.data(), {kDLCPU, 0}, 1, int32, list_shape, nullptr, 0};
    table_tensor = {table.data(), {kDLCPU, 0}, 2, int32, list_shape, nullptr, 0};
    call.size = sizeof(call);
    call.causal = 1;
    call.cache_seqlens = &lengths_tensor;
    call.page_table = &table_tensor;
  }
  TinyCache(const TinyCache&) = delete;
  TinyCache& operator=(const TinyCache&) = delete;

  static std::vector<std::uint16_t> halves(int rows, std::uint16_t bits) {
    return std::vector<std::uint16_t>(static_cast<std::size_t>(rows * kDim), bits);
  }
  static std::uint16_t bfloat16(int value) {
    if (value < 0) return 0xffff;
    const auto number = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  float mean(int sequence) const {
    const std::uint32_t bits = std::uint32_t{out[static_cast<std::size_t>(sequence * kDim)]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  gqa_status run(gqa_handle handle) { return gqa_run_ex(handle, &q_tensor, &k_tensor, &v_tensor, &out_tensor, &call); }
};

class CacheCApi : public ::testing::Test {
 protected:
  gqa_handle make(int checked = 0) {
    gqa_options options = {};
    options.size = sizeof(options);
    options.device = "host";
    options.cache_mode = GQA_CACHE_OFF;
    options.tuning_budget = 0.2;
    options.checked = checked;
    options.log_user = &lines_;
    options.log = [](void* user, gqa_log_level, const char*) { ++*static_cast<int*>(user); };
    EXPECT_EQ(gqa_create(&options, &handle_), GQA_OK) << gqa_last_error();
    return handle_;
  }
  ~CacheCApi() override { gqa_destroy(handle_); }

  gqa_handle handle_ = nullptr;
  int lines_ = 0;  // of the log
  TinyCache t_;
};

TEST_F(CacheCApi, SequencesInPagesEachOfItsLength) {
  ASSERT_EQ(t_.run(make()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 2.0F);  // of 0 to 4
  EXPECT_EQ(t_.mean(1), 8.5F);  // of 8 and 9
  const std::int32_t window[] = {1, -1};
  t_.call.window_size = window;
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 3.5F);  // of 3 and 4
  EXPECT_EQ(t_.mean(1), 8.5F);
}

// In a tensor (pages, heads, 2, page, dim) of 2 heads, of which the second is the cache's; the other is NaN.
TEST_F(CacheCApi, KeysAndValuesAreViewsOfOneTensor) {
  constexpr std::size_t kRow = TinyCache::kDim, kPage = 2 * kRow, kOfPage = 4 * kPage;
  std::vector<std::uint16_t> both(TinyCache::kPages * kOfPage, 0xffff);
  std::uint16_t* const keys = &both[2 * kPage];  // of the second head
  for (std::size_t page = 0; page < TinyCache::kPages; ++page) {
    std::memcpy(&keys[page * kOfPage], &t_.k[page * kPage], kPage * sizeof(std::uint16_t));
    std::memcpy(&keys[page * kOfPage + kPage], &t_.v[page * kPage], kPage * sizeof(std::uint16_t));
  }
  std::int64_t strides[4] = {kOfPage, kRow, 2 * kPage, 1};
  t_.k_tensor.data = keys;
  t_.v_tensor.data = keys + kPage;
  t_.k_tensor.strides = t_.v_tensor.strides = strides;
  ASSERT_EQ(t_.run(make()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 2.0F);
  EXPECT_EQ(t_.mean(1), 8.5F);
}

TEST_F(CacheCApi, AGrowingCacheTunesNothing) {
  ASSERT_EQ(t_.run(make()), GQA_OK) << gqa_last_error();
  const int told = lines_;
  t_.lengths = {3, 0};
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 1.0F);
  EXPECT_EQ(t_.mean(1), 0.0F);
  EXPECT_EQ(lines_, told);
}

TEST_F(CacheCApi, ACheckedHandleNamesSequenceAndPage) {
  ASSERT_EQ(t_.run(make(1)), GQA_OK) << gqa_last_error();
  t_.lengths[1] = 3;
  EXPECT_EQ(t_.run(handle_), GQA_ERROR_OPTION);
  EXPECT_EQ(std::string(gqa_last_error()).find("page_table[1][1] is 77, expected 0 to 5"), 0U) << gqa_last_error();
  EXPECT_EQ(gqa_run_ready(handle_, &t_.q_tensor, &t_.k_tensor, &t_.v_tensor, &t_.out_tensor, &t_.call),
            GQA_ERROR_OPTION);
  t_.lengths[1] = 7;
  EXPECT_EQ(t_.run(handle_), GQA_ERROR_OPTION);
  EXPECT_EQ(std::string(gqa_last_error()).find("cache_seqlens[1] is 7, expected 0 to 6"), 0U) << gqa_last_error();
}

// Two sequences bring a key each and ask nothing: at their lengths, which have room for one more in their last page.
TEST_F(CacheCApi, WithoutAQueryNewKeysAreWrittenAlone) {
  std::vector<std::uint16_t> news = TinyCache::halves(2, 0x3f80);
  const std::vector<std::uint16_t> before = t_.v;
  std::int64_t shape[4] = {2, 1, 1, TinyCache::kDim};
  const DLTensor k_new = {news.data(), {kDLCPU, 0}, 4, t_.q_tensor.dtype, shape, nullptr, 0};
  t_.table[4] = 3;
  t_.q_shape[1] = 0;
  t_.q_tensor.data = t_.out_tensor.data = nullptr;
  t_.call.k_new = t_.call.v_new = &k_new;
  EXPECT_EQ(gqa_run_ready(make(1), &t_.q_tensor, &t_.k_tensor, &t_.v_tensor, &t_.out_tensor, &t_.call),
            GQA_ERROR_NOT_CACHED);
  EXPECT_EQ(t_.v, before);
  EXPECT_EQ(gqa_prepare(handle_, &t_.q_tensor, &t_.k_tensor, &t_.v_tensor, &t_.out_tensor, &t_.call), GQA_OK);
  EXPECT_EQ(gqa_run_ready(handle_, &t_.q_tensor, &t_.k_tensor, &t_.v_tensor, &t_.out_tensor, &t_.call), GQA_OK)
      << gqa_last_error();
  const auto slot = [&](int at) { return t_.v[static_cast<std::size_t>(at * TinyCache::kDim)]; };
  EXPECT_EQ(slot(5 * 2 + 0), before[10 * TinyCache::kDim]);  // the last of the first sequence
  EXPECT_EQ(slot(5 * 2 + 1), 0x3f80);                        // its new one
  EXPECT_EQ(slot(3 * 2 + 0), 0x3f80);                        // the second's, in a page of its own
  std::int64_t bytes = -1;
  EXPECT_EQ(gqa_workspace_size(handle_, &t_.q_tensor, &t_.k_tensor, &t_.v_tensor, &t_.out_tensor, &t_.call, &bytes),
            GQA_OK);
  EXPECT_EQ(bytes, 0);
}

TEST_F(CacheCApi, TheEnvironmentMakesACheckedHandle) {
  setenv("GQA_CHECKED", "1", 1);
  make();
  unsetenv("GQA_CHECKED");
  t_.lengths[0] = -1;
  EXPECT_EQ(t_.run(handle_), GQA_ERROR_OPTION);
  EXPECT_EQ(std::string(gqa_last_error()).find("cache_seqlens[0] is -1"), 0U) << gqa_last_error();
  gqa_destroy(handle_);
  ASSERT_EQ(t_.run(make()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 0.0F);  // counts as 0
}

TEST_F(CacheCApi, OptionsOfAnEarlierHeaderAreTaken) {
  gqa_options options = {};
  options.size = offsetof(gqa_options, checked);
  options.device = "host";
  options.cache_mode = GQA_CACHE_OFF;
  options.checked = 9;  // not part of it
  ASSERT_EQ(gqa_create(&options, &handle_), GQA_OK) << gqa_last_error();
  options.size = offsetof(gqa_options, log);
  gqa_handle none = nullptr;
  EXPECT_EQ(gqa_create(&options, &none), GQA_ERROR_STRUCT_SIZE);
}

TEST_F(CacheCApi, ACallOfAnEarlierHeaderRuns) {
  make();
  t_.k_tensor.shape = t_.v_tensor.shape = t_.q_shape;  // two sequences of one key: pages 0's slots
  t_.call.size = offsetof(gqa_call, cache_seqlens);
  ASSERT_EQ(t_.run(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t_.mean(0), 2.0F);
  EXPECT_EQ(t_.mean(1), 3.0F);
}

}  // namespace

// pages_c_test.cc: gqa_page_pool through libgqa.so and gqa.h alone: a decode from pages that two sequences share, and
// what is refused, by name.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/host_handle.h"

namespace {

constexpr std::int64_t kPoolPages = 6, kPoolPage = 4, kPoolDim = 32;
constexpr std::uint16_t kNotANumber = 0xffff;

// (pages, page, 1, head_dim) bfloat16, NaN at first.
struct PageTensor {
  PageTensor() : data(kPoolPages * kPoolPage * kPoolDim, kNotANumber) {
    tensor = {data.data(), {kDLCPU, 0}, 4, {kDLBfloat, 16, 1}, shape, nullptr, 0};
  }
  PageTensor(const PageTensor&) = delete;
  PageTensor& operator=(const PageTensor&) = delete;
  void fill(std::int32_t page, std::int64_t slot, std::uint16_t value) {
    const auto first = data.begin() + (page * kPoolPage + slot) * kPoolDim;
    std::fill(first, first + kPoolDim, value);
  }
  std::vector<std::uint16_t> data;
  std::int64_t shape[4] = {kPoolPages, kPoolPage, 1, kPoolDim};
  DLTensor tensor;
};

class PagesCApi : public gqa::test::HostCApi {
 protected:
  PagesCApi() { EXPECT_EQ(gqa_page_pool_create(handle_, caches_, 2, &pool_), GQA_OK) << gqa_last_error(); }
  ~PagesCApi() override { gqa_page_pool_destroy(pool_); }
  std::int64_t add(std::int32_t tokens) {
    std::int64_t sequence = 0;
    EXPECT_EQ(gqa_page_pool_add(pool_, &sequence), GQA_OK) << gqa_last_error();
    EXPECT_EQ(gqa_page_pool_append(pool_, &sequence, &tokens, 1, nullptr), GQA_OK) << gqa_last_error();
    return sequence;
  }
  std::int32_t free_pages() {
    std::int32_t pages = -1;
    EXPECT_EQ(gqa_page_pool_free_pages(pool_, &pages), GQA_OK) << gqa_last_error();
    return pages;
  }
  void expect_refused(gqa_status got, gqa_status status, const std::string& words) {
    EXPECT_EQ(got, status) << words << ": " << gqa_last_error();
    EXPECT_NE(std::string(gqa_last_error()).find(words), std::string::npos) << gqa_last_error();
  }

  PageTensor k_, v_;
  const DLTensor* caches_[2] = {&k_.tensor, &v_.tensor};
  gqa_page_pool pool_ = nullptr;
};

// Values are the token's number, keys are zero: a row of out is the mean of the values. Both begin with 1, 2; one goes
// on with 3, the other with 9.
TEST_F(PagesCApi, TwoSequencesDecodeFromOneBeginning) {
  constexpr std::uint16_t kOne = 0x3f80, kTwo = 0x4000, kThree = 0x4040, kNine = 0x4110;
  std::int64_t both[] = {add(2), 0};
  std::int32_t table[4], lengths[2];
  ASSERT_EQ(gqa_page_pool_table(pool_, both, 1, 2, table, nullptr), GQA_OK) << gqa_last_error();
  for (const auto& [slot, value] : {std::pair(0, kOne), {1, kTwo}}) {
    k_.fill(table[0], slot, 0);
    v_.fill(table[0], slot, value);
  }
  ASSERT_EQ(gqa_page_pool_share(pool_, both[0], -1, &both[1]), GQA_OK) << gqa_last_error();
  EXPECT_EQ(free_pages(), 5);
  const std::int32_t one_each[] = {1, 1};
  ASSERT_EQ(gqa_page_pool_append(pool_, both, one_each, 2, nullptr), GQA_OK) << gqa_last_error();
  ASSERT_EQ(gqa_page_pool_table(pool_, both, 2, 2, table, lengths), GQA_OK) << gqa_last_error();
  EXPECT_NE(table[0], table[2]);
  EXPECT_TRUE(lengths[0] == 3 && lengths[1] == 3);
  for (const auto& [page, value] : {std::pair(table[0], kThree), {table[2], kNine}}) {
    k_.fill(page, 2, 0);
    v_.fill(page, 2, value);
  }
  std::vector<std::uint16_t> q(2 * kPoolDim, kOne), out(2 * kPoolDim, kNotANumber);
  std::int64_t q_shape[] = {2, 1, 1, kPoolDim}, table_shape[] = {2, 2}, lengths_shape[] = {2};
  const DLDataType bf16 = {kDLBfloat, 16, 1}, int32 = {kDLInt, 32, 1};
  const DLTensor q_tensor = {q.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0},
                 out_tensor = {out.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0},
                 table_tensor = {table, {kDLCPU, 0}, 2, int32, table_shape, nullptr, 0},
                 lengths_tensor = {lengths, {kDLCPU, 0}, 1, int32, lengths_shape, nullptr, 0};
  gqa_call call = {};
  call.size = sizeof(call);
  call.page_table = &table_tensor;
  call.cache_seqlens = &lengths_tensor;
  ASSERT_EQ(gqa_run_ex(handle_, &q_tensor, &k_.tensor, &v_.tensor, &out_tensor, &call), GQA_OK) << gqa_last_error();
  EXPECT_EQ(out[0], kTwo) << "the mean of 1, 2, 3";
  EXPECT_EQ(out[kPoolDim], 0x4080) << "the mean of 1, 2, 9";
}

TEST_F(PagesCApi, WhatHasNoRoomChangesNothing) {
  const std::int64_t sequence = add(3);
  const std::int32_t tokens = 22;
  expect_refused(gqa_page_pool_append(pool_, &sequence, &tokens, 1, nullptr), GQA_ERROR_OUT_OF_MEMORY,
                 "needs 6 more pages, but 5 of the pool's 6 are free");
  std::int64_t length = 0;
  ASSERT_EQ(gqa_page_pool_length(pool_, sequence, &length), GQA_OK) << gqa_last_error();
  EXPECT_EQ(length, 3);
  EXPECT_EQ(free_pages(), 5);
}

TEST_F(PagesCApi, ARefusedDraftIsTruncatedAndATablesColumnsAreKept) {
  const std::int64_t sequence = add(9);
  EXPECT_EQ(free_pages(), 3);
  ASSERT_EQ(gqa_page_pool_truncate(pool_, sequence, 5), GQA_OK) << gqa_last_error();
  std::int64_t length = 0;
  ASSERT_EQ(gqa_page_pool_length(pool_, sequence, &length), GQA_OK) << gqa_last_error();
  EXPECT_EQ(length, 5);
  EXPECT_EQ(free_pages(), 4);
  expect_refused(gqa_page_pool_truncate(pool_, sequence, 6), GQA_ERROR_SIZE, "tokens is 6, expected 0 to 5");
  const std::int32_t tokens = 4;
  expect_refused(gqa_page_pool_append_within(pool_, &sequence, &tokens, 1, 2, nullptr), GQA_ERROR_SHAPE,
                 "would have 3 pages");
  EXPECT_EQ(gqa_page_pool_append_within(pool_, &sequence, &tokens, 1, 3, nullptr), GQA_OK) << gqa_last_error();
}

TEST_F(PagesCApi, SequencesAreFreedOnceAndByTheirOwnPool) {
  gqa_page_pool other = nullptr;
  ASSERT_EQ(gqa_page_pool_create(handle_, caches_, 1, &other), GQA_OK) << gqa_last_error();
  const std::int64_t sequence = add(3);
  expect_refused(gqa_page_pool_free(other, &sequence, 1), GQA_ERROR_OPTION, "is none of this pool's");
  EXPECT_EQ(gqa_page_pool_free(pool_, &sequence, 1), GQA_OK) << gqa_last_error();
  expect_refused(gqa_page_pool_free(pool_, &sequence, 1), GQA_ERROR_OPTION, "was freed before");
  EXPECT_EQ(free_pages(), 6);
  gqa_page_pool_destroy(other);
}

TEST_F(PagesCApi, TensorsThatAreNoCachesAreRefused) {
  gqa_page_pool made = pool_;
  const auto create = [&](std::int32_t count = 2) { return gqa_page_pool_create(handle_, caches_, count, &made); };
  expect_refused(create(0), GQA_ERROR_SIZE, "count is 0");
  EXPECT_EQ(made, nullptr);
  expect_refused(gqa_page_pool_create(handle_, nullptr, 2, &made), GQA_ERROR_NULL_ARGUMENT, "caches is NULL");
  expect_refused(gqa_page_pool_create(nullptr, caches_, 2, &made), GQA_ERROR_NULL_ARGUMENT, "handle is NULL");
  expect_refused(gqa_page_pool_create(handle_, caches_, 2, nullptr), GQA_ERROR_NULL_ARGUMENT, "pool is NULL");
  v_.shape[0] = 5;
  expect_refused(create(), GQA_ERROR_SHAPE, "caches[1] has pages 5, but caches[0] has pages 6");
  v_.shape[0] = 6;
  v_.shape[1] = 2;
  expect_refused(create(), GQA_ERROR_SHAPE, "caches[1] has page 2, but caches[0] has page 4");
  v_.shape[1] = 0;
  expect_refused(create(), GQA_ERROR_SIZE, "caches[1]'s dimension 1");
  v_.shape[1] = 4;
  v_.tensor.ndim = 3;
  expect_refused(create(), GQA_ERROR_RANK, "caches[1] has 3 dimensions");
  v_.tensor.ndim = 4;
  v_.tensor.dtype = {kDLInt, 4, 1};
  expect_refused(create(), GQA_ERROR_DTYPE, "caches[1] is int4");
  v_.tensor.dtype = {kDLUInt, 8, 1};
  EXPECT_EQ(create(), GQA_OK) << "keys of 8 bits: " << gqa_last_error();
  gqa_page_pool_destroy(made);
  v_.tensor.dtype = {kDLBfloat, 16, 1};
  v_.tensor.device = {kDLCUDA, 1};
  expect_refused(create(), GQA_ERROR_DEVICE, "caches[1] is on cuda:1");
  v_.tensor.device = {kDLCPU, 0};
  std::int64_t same_page[] = {0, kPoolDim, kPoolDim, 1};
  v_.tensor.strides = same_page;
  expect_refused(create(), GQA_ERROR_STRIDE, "caches[1] overlaps itself");
  v_.tensor.strides = nullptr;
  caches_[1] = nullptr;
  expect_refused(create(), GQA_ERROR_NULL_ARGUMENT, "caches[1] is NULL");
}

TEST_F(PagesCApi, NullsAndCountsAreRefused) {
  const std::int64_t sequence = add(1);
  const std::int32_t tokens = 1;
  std::int32_t table[8];
  expect_refused(gqa_page_pool_add(nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT, "pool is NULL");
  expect_refused(gqa_page_pool_add(pool_, nullptr), GQA_ERROR_NULL_ARGUMENT, "sequence is NULL");
  expect_refused(gqa_page_pool_share(pool_, sequence, -1, nullptr), GQA_ERROR_NULL_ARGUMENT, "copy is NULL");
  expect_refused(gqa_page_pool_append(pool_, &sequence, nullptr, 1, nullptr), GQA_ERROR_NULL_ARGUMENT,
                 "tokens is NULL");
  expect_refused(gqa_page_pool_append(pool_, nullptr, &tokens, 1, nullptr), GQA_ERROR_NULL_ARGUMENT,
                 "sequences is NULL");
  expect_refused(gqa_page_pool_append(pool_, &sequence, &tokens, -1, nullptr), GQA_ERROR_SIZE, "count is -1");
  expect_refused(gqa_page_pool_free(pool_, nullptr, 1), GQA_ERROR_NULL_ARGUMENT, "sequences is NULL");
  expect_refused(gqa_page_pool_table(pool_, &sequence, 1, 8, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT,
                 "table is NULL");
  expect_refused(gqa_page_pool_table(pool_, &sequence, 1, 0, table, nullptr), GQA_ERROR_SHAPE, "has 0 columns");
  expect_refused(gqa_page_pool_length(pool_, sequence, nullptr), GQA_ERROR_NULL_ARGUMENT, "tokens is NULL");
  expect_refused(gqa_page_pool_free_pages(pool_, nullptr), GQA_ERROR_NULL_ARGUMENT, "pages is NULL");
  EXPECT_EQ(gqa_page_pool_append(pool_, nullptr, nullptr, 0, nullptr), GQA_OK) << "nothing is asked for";
  gqa_page_pool_destroy(nullptr);
}

}  // namespace

// warm_serving_c_test.cc: gqa_warm_serving through libgqa.so and gqa.h alone: what it tells and in which order, that
// its calls then run without tuning and others do not, what ends it, what is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/host_handle.h"

namespace {

constexpr int kServedDim = 32;

// All that is told; the shape's text outlives its callback.
struct Told {
  std::vector<gqa_serving_progress> all;
  std::vector<std::string> shapes;
  gqa_handle cancel = nullptr;  // at the first shape

  static void tell(void* user, const gqa_serving_progress* at) {
    auto* told = static_cast<Told*>(user);
    told->all.push_back(*at);
    if (at->shape != nullptr) told->shapes.emplace_back(at->shape);
    if (at->shape != nullptr && told->cancel != nullptr) gqa_cancel(told->cancel);
  }
};

class WarmServingCApi : public gqa::test::HostCApi {
 protected:
  WarmServingCApi() {
    serving_.size = sizeof(serving_);
    serving_.range = "batch=1..2,kv=20..40,page=16";  // tables of 2 and of 3 columns
    serving_.q_heads = 2;
    serving_.kv_heads = 1;
    serving_.head_dim = kServedDim;
    serving_.progress = Told::tell;
    serving_.progress_user = &told_;
  }

  // A decode step that must not tune; there are no keys yet.
  gqa_status decode(std::int64_t batch, std::int64_t columns) {
    std::vector<std::uint16_t> q(batch * 2 * kServedDim), pages(16 * kServedDim), out(q.size());
    std::vector<std::int32_t> table(batch * columns), lengths(batch);
    std::int64_t q_shape[] = {batch, 1, 2, kServedDim}, pages_shape[] = {1, 16, 1, kServedDim},
                 table_shape[] = {batch, columns}, lengths_shape[] = {batch};
    const DLDataType bf16 = {kDLBfloat, 16, 1}, int32 = {kDLInt, 32, 1};
    const DLTensor q_tensor = {q.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0},
                   k_tensor = {pages.data(), {kDLCPU, 0}, 4, bf16, pages_shape, nullptr, 0},
                   out_tensor = {out.data(), {kDLCPU, 0}, 4, bf16, q_shape, nullptr, 0},
                   table_tensor = {table.data(), {kDLCPU, 0}, 2, int32, table_shape, nullptr, 0},
                   lengths_tensor = {lengths.data(), {kDLCPU, 0}, 1, int32, lengths_shape, nullptr, 0};
    gqa_call call = {};
    call.size = sizeof(call);
    call.causal = 1;
    call.page_table = &table_tensor;
    call.cache_seqlens = &lengths_tensor;
    return gqa_run_ready(handle_, &q_tensor, &k_tensor, &k_tensor, &out_tensor, &call);
  }

  void expect_refused(gqa_status status, const std::string& words) {
    EXPECT_EQ(gqa_warm_serving(handle_, &serving_), status) << words << ": " << gqa_last_error();
    EXPECT_NE(std::string(gqa_last_error()).find(words), std::string::npos) << gqa_last_error();
  }

  gqa_serving serving_ = {};
  Told told_;
};

TEST_F(WarmServingCApi, EveryCallOfTheRangeRunsAndNoneBeyond) {
  ASSERT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
  for (const int batch : {1, 2})
    for (const int columns : {2, 3}) EXPECT_EQ(decode(batch, columns), GQA_OK) << gqa_last_error();
  EXPECT_EQ(decode(3, 2), GQA_ERROR_NOT_CACHED);
  EXPECT_EQ(decode(2, 4), GQA_ERROR_NOT_CACHED);
}

TEST_F(WarmServingCApi, ThePlanComesFirstThenEachShape) {
  ASSERT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
  ASSERT_EQ(told_.all.size(), 5U);
  EXPECT_EQ(told_.all[0].shape, nullptr);
  ASSERT_EQ(told_.shapes.size(), 4U);
  EXPECT_EQ(told_.shapes[0], "b=1,hq=2,hk=1,sq=1,sk=32,d=32,dtype=bf16,page=16,lens");
  for (std::size_t at = 0; at < told_.all.size(); ++at) {
    const gqa_serving_progress& one = told_.all[at];
    EXPECT_EQ(one.done, static_cast<std::int64_t>(at));
    EXPECT_EQ(one.failed, 0);
    EXPECT_EQ(one.shapes, 4);
    EXPECT_EQ(one.tuned, 0);
    EXPECT_GT(one.kernels, 0);
    EXPECT_GT(one.about_seconds, 0);
    EXPECT_NEAR(one.most_seconds, 4 * 0.2, 1e-9) << "of the handle's tuning_budget";
    EXPECT_GE(one.seconds, at == 0 ? 0 : told_.all[at - 1].seconds);
  }
}

TEST_F(WarmServingCApi, APlanAloneMakesNothingReady) {
  serving_.plan_only = 1;
  ASSERT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
  ASSERT_EQ(told_.all.size(), 1U);
  EXPECT_EQ(told_.all[0].shapes, 4);
  EXPECT_EQ(told_.all[0].done, 0);
  EXPECT_EQ(decode(1, 2), GQA_ERROR_NOT_CACHED);
  serving_.progress = nullptr;
  EXPECT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
}

// Between shapes nothing is being tuned that gqa_cancel could end.
TEST_F(WarmServingCApi, CancelledBetweenTwoShapes) {
  told_.cancel = handle_;
  expect_refused(GQA_ERROR_CANCELLED, "gqa_cancel");
  EXPECT_EQ(told_.shapes.size(), 1U);
  told_.cancel = nullptr;
  EXPECT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
}

TEST_F(WarmServingCApi, AShapeThatFailsIsCountedAndTheOthersAreTried) {
  gqa_options options = {};
  options.size = sizeof(options);
  options.device = "host";
  options.cache_mode = GQA_CACHE_OFF;
  options.tuning = GQA_TUNE_CACHED_ONLY;
  gqa_destroy(handle_);
  ASSERT_EQ(gqa_create(&options, &handle_), GQA_OK) << gqa_last_error();
  expect_refused(GQA_ERROR_NOT_CACHED, "4 of 4 shapes are not ready; the first, b=1,hq=2,hk=1,sq=1,sk=32");
  ASSERT_EQ(told_.all.size(), 5U);
  EXPECT_EQ(told_.all.back().failed, 4);
}

TEST_F(WarmServingCApi, TheLayersWindowCapAndSinkAreTheCalls) {
  const std::int32_t window[] = {9, 0};
  serving_.range = "batch=1,kv=32,q=1,chunk=4,prefill=4..5,dtype=f16,lse";
  serving_.window_size = window;
  serving_.softcap = serving_.sink = 1;
  serving_.head_dim_v = 64;
  serving_.plan_only = 0;
  ASSERT_EQ(gqa_warm_serving(handle_, &serving_), GQA_OK) << gqa_last_error();
  ASSERT_FALSE(told_.shapes.empty());
  for (const std::string& shape : told_.shapes)
    for (const char* word : {"dv=64", "dtype=f16", "lse", "softcap", "sink"})
      EXPECT_NE(shape.find(word), std::string::npos) << word << " of " << shape;
  EXPECT_NE(told_.shapes[0].find("left="), std::string::npos) << told_.shapes[0];
}

TEST_F(WarmServingCApi, WhatIsWrongIsRefusedByName) {
  EXPECT_EQ(gqa_warm_serving(nullptr, &serving_), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_warm_serving(handle_, nullptr), GQA_ERROR_NULL_ARGUMENT);
  const gqa_serving good = serving_;
  const std::int32_t window[] = {-2, 0};
  const auto refused = [&](void (*spoil)(gqa_serving*), gqa_status status, const char* words) {
    serving_ = good;
    spoil(&serving_);
    expect_refused(status, words);
  };
  refused([](gqa_serving* s) { s->size = 0; }, GQA_ERROR_STRUCT_SIZE, "gqa_serving.size is 0");
  refused([](gqa_serving* s) { s->range = nullptr; }, GQA_ERROR_NULL_ARGUMENT, "gqa_serving.range is NULL");
  refused([](gqa_serving* s) { s->range = "batch=3..1,kv=8"; }, GQA_ERROR_OPTION,
          "gqa_serving.range: batch='3..1' runs backwards");
  refused([](gqa_serving* s) { s->q_heads = 0; }, GQA_ERROR_SIZE, "gqa_serving.q_heads is 0");
  refused([](gqa_serving* s) { s->kv_heads = 3; }, GQA_ERROR_HEADS, "kv_heads");
  refused([](gqa_serving* s) { s->head_dim = 33; }, GQA_ERROR_HEAD_DIM, "33");
  refused([](gqa_serving* s) { s->softcap = 2; }, GQA_ERROR_OPTION, "gqa_serving.softcap is 2");
  refused([](gqa_serving* s) { s->sink = -1; }, GQA_ERROR_OPTION, "gqa_serving.sink is -1");
  refused([](gqa_serving* s) { s->plan_only = 7; }, GQA_ERROR_OPTION, "gqa_serving.plan_only is 7");
  serving_ = good;
  serving_.window_size = window;
  expect_refused(GQA_ERROR_OPTION, "gqa_serving.window_size is {-2, 0}");
  EXPECT_TRUE(told_.all.empty());
}

}  // namespace

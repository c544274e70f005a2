// serving_test.cc: what an engine asks of gqa::Handle: packed calls, parts that are merged, workspaces, warming.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "attention_numbers.h"
#include "gqa.hpp"
#include "testing.h"

namespace {

using gqa::test::Bf16;
using gqa::test::kDim;
using gqa::test::kQHeads;
using gqa::test::Row;
using gqa::test::status_of;

constexpr std::int64_t kQueries = 3, kKeys = 20;

class CppServing : public ::testing::Test {
 protected:
  static std::vector<Row> rows(const Bf16& tensor, std::size_t begin, std::size_t end) {
    std::vector<Row> made;
    for (std::size_t at = begin; at < end; ++at) made.push_back(tensor.row(at));
    return made;
  }

  gqa::test::Numbers numbers_;
  const gqa::Handle handle_{gqa::test::host()};
  Bf16 q_{{1, kQueries, kQHeads, kDim}, &numbers_}, out_{{1, kQueries, kQHeads, kDim}};
  Bf16 k_{{1, kKeys, 1, kDim}, &numbers_}, v_{{1, kKeys, 1, kDim}, &numbers_};
};

TEST_F(CppServing, PackedSequences) {
  Bf16 q({kQueries, kQHeads, kDim}, &numbers_), out({kQueries, kQHeads, kDim});
  Bf16 k({kKeys, 1, kDim}, &numbers_), v({kKeys, 1, kDim}, &numbers_);
  std::int32_t q_numbers[] = {0, 1, 3}, k_numbers[] = {0, 8, 20};
  const gqa::Tensor q_starts(q_numbers, {3}, gqa::int32), k_starts(k_numbers, {3}, gqa::int32);
  gqa_call call = {};
  call.causal = 1;
  call.cu_seqlens_q = q_starts.get();
  call.cu_seqlens_k = k_starts.get();
  call.max_seqlen_q = 2;
  call.max_seqlen_k = 12;
  handle_.attention(q.tensor(), k.tensor(), v.tensor(), out.tensor(), call);
  const std::size_t first[] = {0, 8, 8}, seen[] = {8, 11, 12};  // each query's
  for (std::size_t row = 0; row < kQueries * kQHeads; ++row) {
    const std::size_t query = row / kQHeads;
    const Row expected =
        gqa::test::attend(q.row(row), rows(k, first[query], kKeys), rows(v, first[query], kKeys), seen[query]);
    EXPECT_LT(gqa::test::largest_difference(out.row(row), expected), 0.02) << row;
  }
}

TEST_F(CppServing, TwoPartsMergeIntoAttentionOnAll) {
  constexpr std::int64_t kFirst = 7;
  Bf16 outs[] = {Bf16({1, kQueries, kQHeads, kDim}), Bf16({1, kQueries, kQHeads, kDim})};
  std::vector<float> lse_data[] = {std::vector<float>(kQHeads * kQueries), std::vector<float>(kQHeads * kQueries)};
  std::vector<gqa::Tensor> out_parts, lse_parts;
  for (int part = 0; part < 2; ++part) {
    const gqa::Dims dims = {1, part == 0 ? kFirst : kKeys - kFirst, 1, kDim};
    const auto keys = [&](Bf16& all) {
      auto* data = static_cast<std::uint16_t*>(all.tensor().get()->data);
      return gqa::Tensor(data + (part == 0 ? 0 : kFirst * kDim), dims, gqa::bfloat16);
    };
    out_parts.push_back(outs[part].tensor());
    lse_parts.emplace_back(lse_data[part].data(), gqa::Dims{1, kQHeads, kQueries}, gqa::float32);
    gqa_call call = {};
    call.lse = lse_parts[part].get();
    handle_.attention(q_.tensor(), keys(k_), keys(v_), out_parts[part], call);
  }
  std::vector<float> lse_sum(kQHeads * kQueries);
  const gqa::Tensor lse(lse_sum.data(), {1, kQHeads, kQueries}, gqa::float32);
  handle_.merge_states({out_parts[0], out_parts[1]}, {lse_parts[0], lse_parts[1]}, out_.tensor(), lse);
  for (std::size_t row = 0; row < kQueries * kQHeads; ++row) {
    const Row expected = gqa::test::attend(q_.row(row), rows(k_, 0, kKeys), rows(v_, 0, kKeys), kKeys);
    EXPECT_LT(gqa::test::largest_difference(out_.row(row), expected), 0.02) << row;
  }
  for (std::size_t at = 0; at < lse_sum.size(); ++at)
    EXPECT_NEAR(lse_sum[at], std::log(std::exp(lse_data[0][at]) + std::exp(lse_data[1][at])), 1e-5);

  handle_.merge_states({out_parts[0], out_parts[1]}, {lse_parts[0], lse_parts[1]}, out_parts[0], lse_parts[0]);
  EXPECT_EQ(lse_data[0], lse_sum) << "in place";
  const auto merged = [&](const std::vector<gqa::TensorRef>& given, const std::vector<gqa::TensorRef>& lses) {
    handle_.merge_states(given, lses, out_.tensor(), lse);
  };
  EXPECT_EQ(status_of([&] { merged({out_parts[0]}, {}); }, "1 outs and 0 lses"), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { merged({}, {}); }, "count is 0"), GQA_ERROR_SIZE);
  EXPECT_EQ(status_of([&] { merged({q_.tensor()}, {out_.tensor()}); }, "lses[0]"), GQA_ERROR_RANK);
}

TEST_F(CppServing, ACallIsPreparedThenReadyAndItsWorkspaceKnown) {
  const gqa::Tensor q = q_.tensor(), k = k_.tensor(), v = v_.tensor(), out = out_.tensor();
  EXPECT_EQ(status_of([&] { (void)handle_.workspace_size(q, k, v, out); }), GQA_ERROR_NOT_CACHED);
  EXPECT_EQ(status_of([&] { handle_.run_ready(q, k, v, out); }), GQA_ERROR_NOT_CACHED);
  handle_.prepare(q, k, v, out);
  EXPECT_TRUE(std::isnan(out_.row(0)[0]));
  EXPECT_EQ(handle_.workspace_size(q, k, v, out), 0) << "on the host";
  handle_.run_ready(q, k, v, out);
  EXPECT_FALSE(std::isnan(out_.row(0)[0]));
  gqa_call causal = {};
  causal.causal = 1;
  EXPECT_EQ(status_of([&] { (void)handle_.workspace_size(q, k, v, out, causal); }), GQA_ERROR_NOT_CACHED);
  causal.softcap = -1;
  EXPECT_EQ(status_of([&] { handle_.prepare(q, k, v, out, causal); }, "softcap"), GQA_ERROR_OPTION);
}

class CppWarmServing : public CppServing {
 protected:
  CppWarmServing() {
    serving_.range = "batch=1,kv=20,q=3..4,dtype=bf16";
    serving_.q_heads = kQHeads;
    serving_.kv_heads = 1;
    serving_.head_dim = kDim;
  }
  // A call of the range: of 3 queries, or of 4.
  void run(std::int64_t queries) {
    Bf16 q({1, queries, kQHeads, kDim}, &numbers_), out({1, queries, kQHeads, kDim});
    std::int32_t number = kKeys;
    const gqa::Tensor lengths(&number, {1}, gqa::int32);
    gqa_call call = {};
    call.causal = 1;
    call.cache_seqlens = lengths.get();
    handle_.run_ready(q.tensor(), k_.tensor(), v_.tensor(), out.tensor(), call);
  }

  gqa_serving serving_ = {};
};

TEST_F(CppWarmServing, EachCallOfARangeIsReady) {
  std::vector<std::int64_t> done;
  serving_.plan_only = 1;
  handle_.warm_serving(serving_, [&](const gqa_serving_progress& at) { done.push_back(at.done); });
  EXPECT_EQ(done, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(status_of([&] { run(3); }), GQA_ERROR_NOT_CACHED);
  serving_.plan_only = 0;
  handle_.warm_serving(serving_, [&](const gqa_serving_progress& at) { done.push_back(at.done); });
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 0, 1, 2}));
  run(3);
  run(4);
  serving_.range = "batch=3..1,kv=8";
  EXPECT_EQ(status_of([&] { handle_.warm_serving(serving_); }, "runs backwards"), GQA_ERROR_OPTION);
}

TEST_F(CppWarmServing, AnExceptionOfTheCallbackEndsItAndArrives) {
  int told = 0;
  const auto tell = [&](const gqa_serving_progress& at) {
    ++told;
    if (at.done == 1) throw std::length_error("enough");
  };
  EXPECT_THROW(handle_.warm_serving(serving_, tell), std::length_error);
  EXPECT_EQ(told, 2) << "the plan and a shape";
  run(3);
  EXPECT_EQ(status_of([&] { run(4); }), GQA_ERROR_NOT_CACHED);
}

TEST_F(CppWarmServing, AProgressOfCsIsLeft) {
  int told = 0;
  serving_.progress = [](void* user, const gqa_serving_progress*) { ++*static_cast<int*>(user); };
  serving_.progress_user = &told;
  serving_.plan_only = 1;
  handle_.warm_serving(serving_);
  EXPECT_EQ(told, 1);
}

}  // namespace

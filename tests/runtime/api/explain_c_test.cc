// gqa_explain: what it says of calls that are served and of those that are not, by the C interface alone; nothing is
// tuned by it.

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/host_handle.h"

namespace {

using Json = nlohmann::json;

// A compact tensor of zeros.
struct Zeros {
  Zeros(std::int64_t tokens, std::int64_t heads, std::int64_t dim, DLDataType type = {kDLBfloat, 16, 1})
      : shape{1, tokens, heads, dim}, data(static_cast<std::size_t>(tokens * heads * dim * type.bits / 8)) {
    tensor = {data.data(), {kDLCPU, 0}, 4, type, shape, nullptr, 0};
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  std::int64_t shape[4];
  std::vector<std::uint8_t> data;
  DLTensor tensor;
};

class ExplainCApi : public gqa::test::HostCApi {
 protected:
  Json explain(const Zeros& q, const Zeros& k, const Zeros& v, const DLTensor* out = nullptr,
               const gqa_call* call = nullptr) {
    const char *text = nullptr, *json = nullptr;
    EXPECT_EQ(gqa_explain(handle_, &q.tensor, &k.tensor, &v.tensor, out, call, &text, &json), GQA_OK)
        << gqa_last_error();
    text_ = text;
    return Json::parse(json);
  }
  std::string text_;
};

TEST_F(ExplainCApi, AGuessUntilItIsTunedHere) {
  const Zeros q(3, 4, 32), k(9, 2, 32), v(9, 2, 32), out(3, 4, 32);
  const Json guess = explain(q, k, v);
  EXPECT_EQ(guess["source"], "guess");
  EXPECT_NE(guess["kernel"], "");
  EXPECT_GT(guess["evidence"]["predicted_us"], 0);
  EXPECT_EQ(text_.find("problem   b=1,hq=4,hk=2,sq=3,sk=9,d=32"), 0U) << text_;
  EXPECT_EQ(gqa_run_ready(handle_, &q.tensor, &k.tensor, &v.tensor, &out.tensor, nullptr), GQA_ERROR_NOT_CACHED);
  ASSERT_EQ(gqa_run(handle_, &q.tensor, &k.tensor, &v.tensor, &out.tensor), GQA_OK) << gqa_last_error();
  const Json tuned = explain(q, k, v, &out.tensor);
  EXPECT_EQ(tuned["source"], "tuned");
  EXPECT_GT(tuned["evidence"]["median_us"], 0);
  EXPECT_EQ(tuned["problem"], guess["problem"]);
}

TEST_F(ExplainCApi, ACallsOptionsCount) {
  const Zeros q(3, 4, 32), k(9, 2, 32), v(9, 2, 32);
  gqa_call call{};
  call.size = sizeof call;
  call.causal = 1;
  call.softcap = 2;
  EXPECT_NE(explain(q, k, v, nullptr, &call)["problem"].get<std::string>().find("causal"), std::string::npos);
  call.size = 3;
  const Json refused = explain(q, k, v, nullptr, &call);
  EXPECT_EQ(refused["source"], "refused");
  EXPECT_TRUE(refused["nearest"].is_null());
}

TEST_F(ExplainCApi, WhatIsRefusedNamesTheNearestThatIsServed) {
  const Zeros q(3, 6, 72), k(9, 4, 72), v(9, 4, 72);
  const Json made = explain(q, k, v);
  EXPECT_EQ(made["source"], "refused");
  EXPECT_EQ(made["kernel"], "");
  ASSERT_FALSE(made["nearest"].is_null()) << text_;
  const std::string change = made["nearest"]["change"], problem = made["nearest"]["problem"];
  EXPECT_NE(change.find("6 heads of keys and values"), std::string::npos) << change;
  EXPECT_NE(change.find("head_dim 80, padded with zeros, with scale 1/sqrt(72)"), std::string::npos) << change;
  EXPECT_NE(problem.find("hq=6,hk=6"), std::string::npos) << problem;
  EXPECT_NE(problem.find("d=80"), std::string::npos) << problem;
  const Zeros wide(3, 4, 32, {kDLFloat, 64, 1}), wide_k(9, 2, 32, {kDLFloat, 64, 1});
  EXPECT_EQ(explain(wide, wide_k, wide_k)["nearest"]["change"], "q, k and v of float32");
  const Zeros large(3, 4, 512), large_k(9, 2, 512);
  EXPECT_TRUE(explain(large, large_k, large_k)["nearest"].is_null());
}

TEST_F(ExplainCApi, NullsAndStrangeTensors) {
  const Zeros q(3, 4, 32), k(9, 2, 32);
  const char* text = nullptr;
  EXPECT_EQ(gqa_explain(nullptr, &q.tensor, &k.tensor, &k.tensor, nullptr, nullptr, &text, nullptr),
            GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_explain(handle_, &q.tensor, nullptr, &k.tensor, nullptr, nullptr, &text, nullptr),
            GQA_ERROR_NULL_ARGUMENT);
  EXPECT_STREQ(gqa_last_error(), "k is NULL, expected a tensor");
  DLTensor flat = q.tensor;
  flat.ndim = 0;
  ASSERT_EQ(gqa_explain(handle_, &flat, &k.tensor, &k.tensor, nullptr, nullptr, &text, nullptr), GQA_OK);
  EXPECT_EQ(std::string(text).find("source    refused\nreason    q has 0 dimensions"), 0U) << text;
  EXPECT_EQ(gqa_explain(handle_, &q.tensor, &k.tensor, &k.tensor, nullptr, nullptr, nullptr, nullptr), GQA_OK);
}

}  // namespace

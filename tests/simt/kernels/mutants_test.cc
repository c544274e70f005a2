// Faults planted in the device headers and in small kernels: the emulator must see each of them, or it judges nothing.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/agreement.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char* kProblem = "b=1,hq=2,hk=1,sq=40,sk=150,d=64,causal";
constexpr const char* kFlash = "flash m=64 n=32 warps=4 stages=2 pack=2";
constexpr const char* kSplit = "split m=16 n=16 warps=2 stages=3 pack=2 splits=2";

class Mutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
    problem_ = test::problem_of(kProblem);
  }

  // Whether the kernel of a candidate passes, with `from` in a header replaced by `to`; what it must say if it fails.
  ::testing::AssertionResult passes(const char* candidate_text, const std::string& header, const std::string& from,
                                    const std::string& to, const char* says = "") {
    Candidate candidate;
    if (!parse(candidate_text, &candidate).ok()) return ::testing::AssertionFailure() << candidate_text;
    const auto judge = [&](const Kernel& kernel) {
      test::AttentionCase attention(problem_);
      return attention_agrees(kernel, candidate, &attention);
    };
    return judged({attention_source(problem_, candidate), planted(header, from, to)}, judge, says);
  }

  Problem problem_;
};

TEST_F(Mutants, NothingPlanted) {
  EXPECT_TRUE(passes(kFlash, "attention/mma_flash/flash.cuh", "load_queries();", "load_queries();"));
  EXPECT_TRUE(passes(kSplit, "attention/split_kv/split.cuh", "load_queries();", "load_queries();"));
}

TEST_F(Mutants, AWrongLdmatrixOffset) {
  EXPECT_FALSE(passes(kFlash, "attention/common/keys.cuh", "lane + n * 16 * kPitch + d * 32",
                      "lane + n * 16 * kPitch + d * 16"));
}

TEST_F(Mutants, AMissingTranspose) {
  EXPECT_FALSE(passes(kFlash, "attention/common/warp_products.cuh", "ldmatrix_transposed(v_lane", "ldmatrix(v_lane"));
}

TEST_F(Mutants, AMissingWait) {
  EXPECT_FALSE(passes(kFlash, "attention/mma_flash/flash.cuh", "cp_async_wait<Config::kStages - 2>();", ""));
  EXPECT_FALSE(passes(kSplit, "attention/split_kv/split.cuh",
                      "cp_async_wait<Config::kStages - 1>();\n      __syncwarp();", "__syncwarp();"));
}

TEST_F(Mutants, AWaitForOneGroupTooFew) {
  EXPECT_FALSE(passes(kSplit, "attention/split_kv/split.cuh",
                      "cp_async_wait<Config::kStages - 1>();\n      __syncwarp();",
                      "cp_async_wait<Config::kStages>(); __syncwarp();"));
}

TEST_F(Mutants, AMissingBlockBarrier) {
  EXPECT_FALSE(passes(kFlash, "attention/mma_flash/flash.cuh",
                      "cp_async_wait<Config::kStages - 2>();\n      __syncthreads();",
                      "cp_async_wait<Config::kStages - 2>();"));
  EXPECT_FALSE(passes(kSplit, "attention/split_kv/split.cuh", "cp_async_wait<0>();\n    __syncthreads();",
                      "cp_async_wait<0>();"));
}

TEST_F(Mutants, AMissingWarpBarrier) {
  EXPECT_FALSE(passes(kSplit, "attention/split_kv/split.cuh",
                      "cp_async_wait<Config::kStages - 1>();\n      __syncwarp();",
                      "cp_async_wait<Config::kStages - 1>();"));
  EXPECT_FALSE(passes(kFlash, "attention/mma_flash/flash.cuh", "__syncwarp();\n    constexpr int kElements",
                      "constexpr int kElements"));
}

// Between the blocks that share a head's keys.
TEST_F(Mutants, PartsThatNothingOrders) {
  const auto race = [&](const char* from, const char* to) {
    const char* const says = "of the workspace are read";
    const auto result = passes(kSplit, "attention/common/arrival.cuh", from, to, says);
    EXPECT_FALSE(result) << from;
    EXPECT_NE(std::string::npos, std::string(result.message()).find(says)) << result.message();
  };
  race("acq_rel", "acquire");
  race("acq_rel", "release");
  race("__syncthreads();\n  if (threadIdx.x == 0) *last", "if (threadIdx.x == 0) *last");
}

TEST_F(Mutants, AStorePastTheEnd) {
  const char *const says = "past the end of out", *const check = "if (!row_exists<Config>(p, count, row)) continue;";
  const auto result = passes(kFlash, "attention/mma_flash/flash.cuh", check, "", says);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string::npos, std::string(result.message()).find(says)) << result.message();
}

TEST_F(Mutants, ALoadPastTheEnd) {
  const char* const says = "past the end of";
  const auto result = passes(kFlash, "attention/common/tile.cuh", "valid(first + row + r)", "true", says);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string::npos, std::string(result.message()).find(says)) << result.message();
}

TEST_F(Mutants, AWrongRounding) {
  EXPECT_FALSE(passes(kFlash, "attention/common/warp_products.cuh", "pack(s[0], s[1])", "pack(s[1], s[0])"));
}

}  // namespace
}  // namespace gqa::simt

// Finite scores far from zero, run on the CPU against float64 in each family and form of softmax: masks that fill with
// a finite number, the types' least ones among them, whole rows of them, biases and products up to float32's largest.
// Weights are finite and sum to 1, log-sum-exp is float64's. And the faults that must be seen.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/far_scores_case.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/planted.h"
#include "tests/simt/kernels/warpgroup/launch.h"

namespace gqa::simt {
namespace {

constexpr const char* kFlash = "flash m=32 n=16 warps=2 stages=2 pack=1";
constexpr const char* kWideFlash = "flash m=64 n=32 warps=2 stages=1 pack=2";
constexpr const char* kParts = "split m=16 n=16 warps=2 stages=2 pack=2 splits=3";
constexpr const char* kWhole = "split m=16 n=16 warps=2 stages=2 pack=2 splits=1";
constexpr const char* kEven = "split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=7";
constexpr const char* kWarpgroup = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0";
constexpr const char* kShared = "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=0 out=0";
constexpr const char* kOnesColumn = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1";
constexpr const char* kStreamK = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=2";

constexpr const char* kSoftmax = "attention/common/softmax.cuh";
constexpr const char* kWarpgroupSoftmax = "attention/wgmma_flash/warpgroup_softmax.cuh";

using Headers = std::vector<EmbeddedHeader>;

Candidate candidate_of(const char* text) {
  Candidate candidate;
  EXPECT_TRUE(parse(text, &candidate).ok()) << text;
  return candidate;
}

bool is_warpgroup(const std::string& candidate) { return candidate.find("warpgroup") == 0; }

// Scores are a matter of numbers, not of order: one schedule.
::testing::AssertionResult right(const Kernel& kernel, const char* candidate_text, test::AttentionCase* attention) {
  const Candidate candidate = candidate_of(candidate_text);
  Status status;
  if (is_warpgroup(candidate_text)) {
    status = run_warpgroup(kernel, candidate, 1, attention, {schedules().back()});
  } else {
    Outputs outputs;
    status = launch_attention(kernel, candidate, *attention, schedules().back(), &outputs);
    if (status.ok()) {
      std::copy(outputs.out.begin(), outputs.out.end(), attention->out.begin());
      attention->lse = outputs.lse;
    }
  }
  if (!status.ok()) return ::testing::AssertionFailure() << status.message();
  return test::far_scores_right(*attention);
}

// The verdict on a kernel, which the judge asks of as many cases as it likes.
::testing::AssertionResult judged_on(const char* candidate, const std::string& problem, const Judge& judge,
                                     const Headers& headers = embedded_headers()) {
  return judged({attention_source(test::problem_of(problem), candidate_of(candidate)), headers}, judge);
}

class FarScores : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

// ---- flash and split: a number of each score

TEST_F(FarScores, MasksOfFiniteNumbers) {
  for (const char* type : {"bf16", "f16"})
    for (const char* bias : {"addtensor", "addtensor32"})
      for (const auto& [candidate, problem] : {std::pair(kFlash, "b=1,hq=2,hk=1,sq=37,sk=70,d=64"),
                                               {kWideFlash, "b=1,hq=2,hk=1,sq=40,sk=70,d=64,causal"},
                                               {kParts, "b=1,hq=2,hk=1,sq=7,sk=150,d=64"},
                                               {kWhole, "b=1,hq=2,hk=1,sq=7,sk=100,d=64"}}) {
        const std::string text = problem + std::string(",dtype=") + type + ",scores=" + bias;
        const auto judge = [&, candidate = candidate](const Kernel& kernel) -> ::testing::AssertionResult {
          for (const test::FiniteMask& mask : test::kFiniteMasks)
            for (const float number : {0.F, -1e9F, -5e9F}) {
              test::AttentionCase attention(test::problem_of(text));
              const bool fits = number == 0 || attention.arrays.scores16.empty() || std::string(type) == "bf16";
              if (!fits) continue;
              test::hide(mask, number == 0 ? test::least_bias(attention.call.problem) : number, &attention);
              if (auto result = right(kernel, candidate, &attention); !result)
                return result << " (" << mask.name << " by " << number << ")";
            }
          return ::testing::AssertionSuccess();
        };
        EXPECT_TRUE(judged_on(candidate, text, judge)) << text << " " << candidate;
      }
}

TEST_F(FarScores, Biases) {
  for (const char* type : {"bf16", "f16"})
    for (const char* candidate : {kFlash, kWideFlash, kParts, kWhole}) {
      const std::string problem = "b=1,hq=2,hk=1,sq=40,sk=150,d=64,scores=addtensor32,dtype=" + std::string(type);
      const auto judge = [&](const Kernel& kernel) {
        test::AttentionCase attention(test::problem_of(problem));
        test::set_far_biases(&attention);
        return right(kernel, candidate, &attention);
      };
      EXPECT_TRUE(judged_on(candidate, problem, judge)) << type << candidate;
    }
}

TEST_F(FarScores, BesideSinks) {
  for (const char* candidate : {kFlash, kParts, kWhole}) {
    const char* const problem = "b=1,hq=4,hk=2,sq=40,sk=150,d=64,sink,scores=addtensor32,dtype=f16";
    const auto judge = [&](const Kernel& kernel) {
      test::AttentionCase attention(test::problem_of(problem));
      test::set_far_biases(&attention);
      attention.sink = {-1e9F, 1e9F, -3.4e38F, 3.4e38F};
      const auto result = right(kernel, candidate, &attention);
      attention.sink = {INFINITY, -INFINITY, 1e6F, -3e38F};
      return result ? right(kernel, candidate, &attention) : result;
    };
    EXPECT_TRUE(judged_on(candidate, problem, judge)) << candidate;
  }
}

// ---- all families: products, and numbers of the call

std::string problem_for(const char* candidate, const char* type) {
  const bool sums = std::string(candidate).find("ones_column") != std::string::npos;
  return "b=1,hq=2,hk=1,sq=70,sk=230,d=64,dtype=" + std::string(type) + (sums ? ",lse=0" : "");
}

TEST_F(FarScores, Products) {
  for (const char* type : {"bf16", "f16"})
    for (const char* candidate :
         {kFlash, kWideFlash, kParts, kWhole, kEven, kWarpgroup, kShared, kOnesColumn, kStreamK})
      for (const char* more : {"", ",causal"})
        for (const bool near_keys : {false, true}) {
          if (candidate == kStreamK && *more != 0) continue;  // refused
          const std::string text = problem_for(candidate, type) + more + (candidate == kEven ? ",lens" : "");
          const auto judge = [&](const Kernel& kernel) {
            test::AttentionCase attention(test::problem_of(text));
            test::set_far_products(std::string(type) == "bf16" && near_keys ? 0x1p40F : 1, near_keys, &attention);
            return right(kernel, candidate, &attention);
          };
          EXPECT_TRUE(judged_on(candidate, text, judge)) << text << " " << candidate << " " << near_keys;
        }
}

TEST_F(FarScores, ANumberOfTheCall) {
  for (const char* candidate : {kFlash, kParts, kWarpgroup, kOnesColumn}) {
    const std::string problem = problem_for(candidate, "f16") + ",scores=add0";
    const auto judge = [&](const Kernel& kernel) -> ::testing::AssertionResult {
      for (const float number : {-1e9F, 1e9F, 1e20F, -3.4e38F, 3.4e38F, 1e5F}) {
        test::AttentionCase attention(test::problem_of(problem));
        attention.call.slots[0] = number;
        if (auto result = right(kernel, candidate, &attention); !result) return result << " (" << number << ")";
      }
      return ::testing::AssertionSuccess();
    };
    EXPECT_TRUE(judged_on(candidate, problem, judge)) << candidate;
  }
}

// ---- faults

struct Fault {
  const char *header, *from, *to;
};

constexpr Fault kNoFallback = {kSoftmax, "return fabsf(scaled_maximum) >= kFarFromZero;", "return false;"};
constexpr Fault kPartsNotExact = {kSoftmax, "is_far(shift) ? (from - to) * scale_log2 : ", ""};
constexpr Fault kMaximumBeforeNotSubtracted = {kSoftmax, "      before[h] -= maximum[h];\n", ""};
constexpr Fault kLseThroughLog2 = {kSoftmax, "fmaf(maximum, scale_log2 * kLn2, __log2f(sum) * kLn2)",
                                   "(maximum * scale_log2 + __log2f(sum)) * kLn2"};

bool sees(const char* candidate, const Fault& fault, const char* bias = nullptr) {
  const std::string problem = problem_for(candidate, "f16") + (bias == nullptr ? "" : std::string(",scores=") + bias);
  const auto judge = [&](const Kernel& kernel) -> ::testing::AssertionResult {
    // Kinds of rows differ in which way their scaled products are rounded; beside others they fall back with those.
    for (const int only : {test::kEveryKind, 1, 2})
      for (const bool near_keys : {false, true}) {
        test::AttentionCase attention(test::problem_of(problem));
        if (bias == nullptr)
          test::set_far_products(1, near_keys, &attention, only);
        else
          test::set_far_biases(&attention);
        if (auto result = right(kernel, candidate, &attention); !result) return result;
      }
    return ::testing::AssertionSuccess();
  };
  return !judged_on(candidate, problem, judge, planted(fault.header, fault.from, fault.to));
}

TEST_F(FarScores, FaultsAreSeen) {
  for (const char* candidate : {kFlash, kParts, kWarpgroup, kOnesColumn})
    EXPECT_TRUE(sees(candidate, kNoFallback)) << candidate;
  for (const char* candidate : {kParts, kWhole, kShared, kStreamK})
    EXPECT_TRUE(sees(candidate, kPartsNotExact)) << candidate;
  for (const char* candidate : {kFlash, kWarpgroup, kOnesColumn})
    EXPECT_TRUE(sees(candidate, kMaximumBeforeNotSubtracted)) << candidate;
  for (const char* candidate : {kFlash, kParts}) EXPECT_TRUE(sees(candidate, kLseThroughLog2, "addtensor32"));
  EXPECT_TRUE(sees(kWarpgroup, {kWarpgroupSoftmax, " && !one_is_far(shift)", ""}));
  EXPECT_TRUE(sees(kWarpgroup, {kWarpgroupSoftmax, " && !is_far(scaled(state.maximum[h], scale_log2))", ""}));
  EXPECT_TRUE(sees(kOnesColumn, {kWarpgroupSoftmax, "is_far(shift) ? -negative_infinity() : ", ""}));
}

}  // namespace
}  // namespace gqa::simt

// Sinks in the softmax's denominator, run on the CPU against float64: flash, split in one part and in several, even
// cuts, packed heads, rows and sequences without keys, beside a soft cap; and the faults that must be seen.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/simt/kernels/agreement.h"
#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char* kFlash = "flash m=32 n=16 warps=2 stages=2 pack=2";
constexpr const char* kParts = "split m=16 n=16 warps=2 stages=2 pack=2 splits=3";
constexpr const char* kWhole = "split m=16 n=16 warps=2 stages=2 pack=2 splits=1";
constexpr const char* kFlashKernel = "attention/mma_flash/flash.cuh";
constexpr const char* kSplitKernel = "attention/split_kv/split.cuh";
constexpr const char* kSinkHeader = "attention/common/sink.cuh";

class Sink : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_F(Sink, OfFlash) {
  EXPECT_TRUE(agrees_with_float64("b=2,hq=4,hk=2,sq=37,sk=70,d=64,causal,sink", kFlash));
  EXPECT_TRUE(agrees_with_float64("b=1,hq=3,hk=1,sq=40,sk=61,d=80,align=2,dtype=f16,sink",
                                  "flash m=32 n=16 warps=1 stages=1 pack=3"));
  EXPECT_TRUE(agrees_with_float64("b=1,hq=4,hk=2,sq=40,sk=90,d=64,dtype=f16,left=20,causal,softcap,sink", kFlash));
}

TEST_F(Sink, OfSplit) {
  for (const char* candidate : {kParts, kWhole}) {
    EXPECT_TRUE(agrees_with_float64("b=2,hq=4,hk=2,sq=1,sk=300,d=64,sink", candidate)) << candidate;
    EXPECT_TRUE(agrees_with_float64("b=1,hq=4,hk=2,sq=7,sk=100,d=128,dtype=f16,causal,softcap,sink", candidate))
        << candidate;
  }
}

TEST_F(Sink, OfRowsWithoutKeys) {
  for (const char* candidate : {kFlash, kParts, kWhole})
    EXPECT_TRUE(agrees_with_float64("b=1,hq=4,hk=2,sq=20,sk=7,d=64,causal,sink", candidate)) << candidate;
}

TEST_F(Sink, OfACache) {
  for (const char* candidate_text : {kFlash, kParts, "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7"}) {
    test::CacheCase t("b=4,hq=4,hk=2,sq=3,sk=150,d=64,causal,lens,page=7,lse,softcap,sink", {150, 0, 31, 64});
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    EXPECT_TRUE(judged({attention_source(t.call.problem, candidate)}, [&](const Kernel& kernel) {
      return cache_agrees(kernel, candidate, &t);
    })) << candidate_text;
  }
}

TEST_F(Sink, OfMinusInfinityIsNone) {
  const Problem problem = test::problem_of("b=1,hq=4,hk=2,sq=20,sk=7,d=64,causal,sink");
  for (const char* candidate_text : {kFlash, kParts}) {
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    EXPECT_TRUE(judged({attention_source(problem, candidate)}, [&](const Kernel& kernel) {
      test::AttentionCase attention(problem);
      attention.sink[1] = -INFINITY;
      return attention_agrees(kernel, candidate, &attention);
    })) << candidate_text;
  }
}

// A head's rows are zero then, and their log-sum-exp is the sink.
TEST_F(Sink, ThatOutweighsAllKeys) {
  const Problem problem = test::problem_of("b=1,hq=4,hk=2,sq=20,sk=70,d=64,causal,sink");
  for (const char* candidate_text : {kFlash, kParts, kWhole}) {
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    EXPECT_TRUE(judged_whole({attention_source(problem, candidate)}, [&](const Kernel& kernel) {
      test::AttentionCase attention(problem);
      attention.sink = {INFINITY, 3e38F, -3e38F, 2.4e38F};
      EXPECT_TRUE(attention_agrees(kernel, candidate, &attention)) << candidate_text;
      EXPECT_EQ(0, attention.out_at(0, 0, 0, 0));
      EXPECT_EQ(INFINITY, attention.lse[0]);
      EXPECT_EQ(3e38F, attention.lse[20]);
    }));
  }
}

TEST_F(Sink, FaultsAreSeen) {
  const struct {
    const char *candidate, *header, *from, *to;
  } faults[] = {
      // another head's; in no denominator; exponents of another base
      {kFlash, kSinkHeader, "head + row % Config::kPack", "head"},
      {kParts, kSinkHeader, "head + row % Config::kPack", "head"},
      {kFlash, kSinkHeader, "+ of_sink", ""},
      {kParts, kSinkHeader, "+ of_sink", ""},
      {kFlash, kSinkHeader, "scale = scale_log2 * kLn2", "scale = scale_log2"},
      // missed in out, in the log-sum-exp, in the weights of parts
      {kFlash, kFlashKernel, "return total_of(place, state, half, row).weight();",
       "return inverse_or_zero(state.sum[half]);"},
      {kFlash, kFlashKernel, "return total_of(place, state, half, row).lse(p.scale_log2);",
       "return log_sum_exp(state.maximum[half], state.sum[half], p.scale_log2);"},
      {kParts, kSplitKernel, "store_lse(total, index);", "store_lse(row, index);"},
      {kParts, kSplitKernel, "smem.weight[r] = total.weight();", ""},
      {kWhole, kSplitKernel, "smem.weight[r] = total.weight();", ""},
      {kParts, kSinkHeader, "inverse_or_zero(sum) * of_keys", "inverse_or_zero(sum)"},
      {kFlash, kSinkHeader, "inverse_or_zero(sum) * of_keys", "inverse_or_zero(sum)"},
      // once for each part
      {kParts, kSplitKernel, "partial[kRows * kDim + kRows + r] = row.sum;",
       "const RowTotal part_total = with_sink<Config>(row.maximum, row.sum, p.scale_log2, *numbers, place.head,\n"
       "    place.first_row + r);\n"
       "partial[kRows * kDim + kRows + r] = part_total.sum / part_total.of_keys;"},
  };
  for (const auto& fault : faults)
    EXPECT_FALSE(agrees_with_float64("b=1,hq=4,hk=2,sq=20,sk=100,d=64,causal,sink", fault.candidate,
                                     planted(fault.header, fault.from, fault.to)))
        << fault.candidate << ": " << fault.from;
  // the row's maximum alone, of rows that see no key
  EXPECT_FALSE(agrees_with_float64("b=1,hq=4,hk=2,sq=20,sk=7,d=64,causal,sink", kFlash,
                                   planted(kSinkHeader, "fmaxf(maximum * scale, sink)", "maximum * scale")));
}

}  // namespace
}  // namespace gqa::simt

// The host's kernels on chains of score steps, for every instruction set that runs here: a soft cap and others, and
// sinks, against float64, with masks, several parts, packed heads, pages and lengths.
#include <gtest/gtest.h>

#include <string>

#include "runtime/host/attention/host_kernel.h"
#include "tests/runtime/attention_case.h"
#include "tests/runtime/cache_case.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

constexpr const char* kFlash = "flash m=32 n=32 warps=1 stages=1 pack=1";
constexpr const char* kParts = "split m=32 n=32 warps=1 stages=1 pack=2 splits=3";

void expect_float64(const std::string& text, const char* candidate, float magnitude = 1) {
  for (const TileKernels* kernels : usable_tile_kernels()) {
    test::AttentionCase t(test::problem_of(text), false, magnitude);
    const HostKernel kernel(gqa::candidate_of(candidate), 2, *kernels);
    ASSERT_TRUE(kernel.run(t.call).ok());
    EXPECT_TRUE(test::matches_float64(t)) << kernels->name << " " << candidate;
  }
}

TEST(HostScores, Softcap) {
  for (const char* candidate : {kFlash, kParts})
    for (const char* more : {",causal", ",dtype=f16", ",left=20,causal", ",dtype=f16,left=5,right=3"})
      expect_float64("b=2,hq=4,hk=2,sq=37,sk=90,d=64,softcap" + std::string(more), candidate);
}

// Most of the scores are near the cap.
TEST(HostScores, SoftcapOfLargeScores) { expect_float64("b=1,hq=2,hk=1,sq=9,sk=70,d=64,dtype=f16,softcap", kFlash, 3); }

TEST(HostScores, OtherChains) {
  for (const char* scores :
       {"tanh", "add1+relu", "mul2+silu+sub3+div1", "gelu+exp2", "square+add1+rsqrt", "exp+reciprocal+sqrt"})
    for (const char* candidate : {kFlash, kParts})
      expect_float64("b=1,hq=2,hk=1,sq=9,sk=70,d=64,causal,scores=" + std::string(scores), candidate);
}

// Factors and biases of heads, rows and scores; NaN where none may be read, -inf where it hides a key, or a whole
// row's.
TEST(HostScores, StepsThatReadArrays) {
  for (const char* scores : {"mulhead", "mulrow", "addtensor", "addtensor32", "div0+mulrow+tanh+mul0",
                             "div0+tanh+mul0+addtensor", "mulhead+addtensor32"})
    for (const char* candidate : {kFlash, kParts})
      for (const char* more : {",causal", ",dtype=f16", ",sink", ",left=20,causal"})
        expect_float64("b=2,hq=4,hk=2,sq=9,sk=300,d=64,scores=" + std::string(scores) + more, candidate);
}

TEST(HostScores, ArraysOnACacheAndOfPackedSequencesHeads) {
  for (const char* candidate : {kFlash, kParts})
    for (const TileKernels* kernels : usable_tile_kernels()) {
      const HostKernel kernel(gqa::candidate_of(candidate), 2, *kernels);
      test::CacheCase cached("b=4,hq=2,hk=1,sq=5,sk=150,d=64,left=40,causal,lens,page=7,lse,scores=mulrow+addtensor",
                             {150, 0, 31, 64});
      ASSERT_TRUE(kernel.run(cached.call).ok());
      EXPECT_TRUE(cached.right()) << kernels->name << " " << candidate;
      test::CacheCase packed("b=3,hq=2,hk=1,sq=9,sk=40,d=64,causal,packq,packk,lse,scores=mulhead", {40, 12, 0}, false,
                             {{9, 3, 5}});
      ASSERT_TRUE(kernel.run(packed.call).ok());
      EXPECT_TRUE(packed.right()) << kernels->name << " " << candidate;
    }
}

TEST(HostScores, Sink) {
  for (const char* candidate : {kFlash, kParts})
    for (const char* more : {",causal", ",dtype=f16", ",dtype=f16,left=5,right=3", ",softcap"})
      expect_float64("b=2,hq=4,hk=2,sq=37,sk=90,d=64,sink" + std::string(more), candidate);
}

// Rows that see no key give 0, and their sink as log-sum-exp.
TEST(HostScores, SinkOfRowsWithoutKeys) {
  for (const char* candidate : {kFlash, kParts}) expect_float64("b=1,hq=4,hk=2,sq=40,sk=7,d=64,causal,sink", candidate);
}

TEST(HostScores, ASinkOfMinusInfinityIsNone) {
  for (const TileKernels* kernels : usable_tile_kernels()) {
    test::AttentionCase t(test::problem_of("b=1,hq=2,hk=1,sq=9,sk=4,d=64,causal,sink"));
    t.sink[0] = -INFINITY;
    ASSERT_TRUE(HostKernel(gqa::candidate_of(kFlash), 1, *kernels).run(t.call).ok());
    EXPECT_TRUE(test::matches_float64(t)) << kernels->name;
    EXPECT_EQ(t.lse.front(), -INFINITY);
  }
}

TEST(HostScores, SoftcapAndSinkOnACache) {
  for (const char* candidate : {kFlash, kParts})
    for (const TileKernels* kernels : usable_tile_kernels()) {
      test::CacheCase t("b=4,hq=2,hk=1,sq=5,sk=150,d=64,left=40,causal,lens,page=7,lse,softcap,sink", {150, 0, 31, 64});
      const HostKernel kernel(gqa::candidate_of(candidate), 2, *kernels);
      ASSERT_TRUE(kernel.run(t.call).ok());
      EXPECT_TRUE(t.right()) << kernels->name << " " << candidate;
    }
}

}  // namespace
}  // namespace gqa

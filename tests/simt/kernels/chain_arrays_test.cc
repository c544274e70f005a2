// Chains whose steps read arrays of heads, rows and scores, run on the CPU against float64 in flash and split: beside
// masks, packed heads, several parts and caches. Arrays hold NaN wherever no score may read them. And the faults that
// must be seen.
#include <gtest/gtest.h>

#include <string>

#include "jit/codegen.h"
#include "tests/simt/kernels/agreement.h"
#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char* kFlash = "flash m=32 n=16 warps=2 stages=2 pack=1";
constexpr const char* kPacked = "flash m=64 n=16 warps=2 stages=1 pack=4";
constexpr const char* kParts = "split m=16 n=16 warps=2 stages=2 pack=2 splits=3";
constexpr const char* kChainArrays = "attention/common/chain_arrays.cuh";

struct Case {
  const char *problem, *candidate;
};

class ChainArraysKernel : public ::testing::TestWithParam<Case> {};

TEST_P(ChainArraysKernel, AgreesWithFloat64UnderEverySchedule) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  EXPECT_TRUE(agrees_with_float64(GetParam().problem, GetParam().candidate));
}

INSTANTIATE_TEST_SUITE_P(
    Operands, ChainArraysKernel,
    ::testing::Values(Case{"b=2,hq=4,hk=2,sq=37,sk=70,d=64,causal,scores=mulhead", kFlash},
                      Case{"b=2,hq=4,hk=2,sq=37,sk=70,d=64,causal,scores=mulrow", kFlash},
                      Case{"b=2,hq=4,hk=2,sq=37,sk=70,d=64,causal,scores=addtensor", kFlash},
                      Case{"b=1,hq=2,hk=1,sq=20,sk=61,d=64,dtype=f16,scores=addtensor32", kFlash},
                      Case{"b=1,hq=4,hk=1,sq=19,sk=61,d=80,align=2,scores=mulhead+div1+addtensor", kPacked},
                      Case{"b=1,hq=4,hk=1,sq=19,sk=61,d=64,dtype=f16,scores=div0+mulrow+tanh+mul0", kPacked},
                      Case{"b=1,hq=2,hk=1,sq=33,sk=90,d=64,left=20,causal,scores=div0+tanh+mul0+addtensor", kFlash},
                      Case{"b=2,hq=4,hk=2,sq=7,sk=100,d=64,causal,scores=mulhead", kParts},
                      Case{"b=2,hq=4,hk=2,sq=7,sk=100,d=64,scores=mulrow", kParts},
                      Case{"b=2,hq=4,hk=2,sq=7,sk=100,d=64,causal,scores=addtensor", kParts},
                      Case{"b=1,hq=4,hk=2,sq=7,sk=100,d=128,dtype=f16,scores=mulrow+addtensor32", kParts},
                      Case{"b=1,hq=4,hk=2,sq=7,sk=100,d=64,sink,scores=addtensor", kParts},
                      Case{"b=3,hq=4,hk=2,sq=2,sk=150,d=64,causal,page=16,lens,scores=mulhead+addtensor",
                           "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7"}));

// A head's factor where queries and keys are packed, too; rows' and scores' on a cache.
TEST(ChainArraysCache, PagesLengthsWindowsAndPackedSequences) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* candidate_text : {kFlash, kParts}) {
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    const auto expect_right = [&](test::CacheCase* t) {
      EXPECT_TRUE(judged({attention_source(t->call.problem, candidate)},
                         [&](const Kernel& kernel) { return cache_agrees(kernel, candidate, t); }));
    };
    test::CacheCase cached("b=4,hq=2,hk=1,sq=5,sk=150,d=64,left=40,causal,lens,page=7,lse,scores=mulrow+addtensor",
                           {150, 0, 31, 64});
    expect_right(&cached);
    test::CacheCase packed("b=3,hq=2,hk=1,sq=9,sk=40,d=64,causal,packq,packk,lse,scores=mulhead", {40, 12, 0}, false,
                           {{9, 3, 5}});
    expect_right(&packed);
  }
}

struct Fault {
  const char *steps, *from, *to;
};

TEST(ChainArraysMutants, AreSeen) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  const Fault faults[] = {
      // past the last row: the array ends there
      {"addtensor", "of_scores[m][h] = exists ? elements +", "of_scores[m][h] = true ? elements +"},
      {"mulrow", "of_row[m][h] = exists ?", "of_row[m][h] = true ?"},
      // past the last key
      {"addtensor", "row != nullptr && key < keys", "row != nullptr"},
      // a neighbour's factor, or the same for all packed heads
      {"mulhead", "numbers.heads + place.head + row % Config::kPack",
       "numbers.heads + (place.head + row % Config::kPack) / 2"},
      {"mulhead", "numbers.heads + place.head + row % Config::kPack", "numbers.heads + row % Config::kPack"},
      // a row or a column beside, another half of a fragment
      {"mulrow", "row_at(numbers.row_strides, place, row)",
       "row_at(numbers.row_strides, place, max(row - Config::kPack, 0))"},
      {"addtensor", "row_at(numbers.score_strides, place, row)",
       "row_at(numbers.score_strides, place, max(row - Config::kPack, 0))"},
      {"addtensor", "threadIdx.x % 4 * 2 + c % 2", "threadIdx.x % 4 * 2 + (c + 1) % 2"},
      {"addtensor", "of(m, c / 2, key)", "of(m, 1 - c / 2, key)"},
      {"mulrow", "of(m, c / 2, key)", "of(m, 1 - c / 2, key)"},
      // of another tile
      {"addtensor", "const int key = first_key +", "const int key ="},
  };
  for (const char* candidate : {kFlash, kParts}) {
    for (const char* steps : {"mulhead", "mulrow", "addtensor"})
      EXPECT_TRUE(agrees_with_float64("b=2,hq=4,hk=2,sq=21,sk=90,d=64,scores=" + std::string(steps), candidate));
    for (const Fault& fault : faults)
      EXPECT_FALSE(agrees_with_float64("b=2,hq=4,hk=2,sq=21,sk=90,d=64,scores=" + std::string(fault.steps), candidate,
                                       planted(kChainArrays, fault.from, fault.to)))
          << candidate << ": " << fault.to;
  }
}

}  // namespace
}  // namespace gqa::simt

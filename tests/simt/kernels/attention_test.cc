// The attention kernels of the flash and split families, run on the CPU against float64: head dims, masks, ragged
// lengths, packed groups, splits, unaligned rows, strides, dtypes, pipelines, KV caches.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/agreement.h"

namespace gqa::simt {
namespace {

struct Case {
  const char* problem;
  const char* candidate;
  bool heads_first = false;
};

class Attention : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_P(Attention, AgreesWithFloat64UnderEverySchedule) {
  const Problem problem = test::problem_of(GetParam().problem);
  Candidate candidate;
  ASSERT_TRUE(parse(GetParam().candidate, &candidate).ok());
  EXPECT_TRUE(judged({attention_source(problem, candidate)}, [&](const Kernel& kernel) {
    test::AttentionCase attention(problem, GetParam().heads_first);
    return attention_agrees(kernel, candidate, &attention);
  }));
}

INSTANTIATE_TEST_SUITE_P(
    Flash, Attention,
    ::testing::Values(
        Case{"b=2,hq=4,hk=2,sq=70,sk=70,d=64,causal", "flash m=64 n=32 warps=4 stages=2 pack=1"},
        Case{"b=1,hq=2,hk=1,sq=33,sk=90,d=128,dtype=f16,causal", "flash m=32 n=32 warps=2 stages=3 pack=1", true},
        Case{"b=1,hq=4,hk=1,sq=19,sk=61,d=80,align=2", "flash m=64 n=16 warps=2 stages=1 pack=4"},
        Case{"b=1,hq=2,hk=2,sq=40,sk=17,d=192,dv=128,causal", "flash m=32 n=16 warps=1 stages=2 pack=1 head_swizzle=1"},
        Case{"b=1,hq=2,hk=2,sq=20,sk=40,d=64,dv=128", "flash m=32 n=32 warps=2 stages=1 pack=1"},
        Case{"b=1,hq=2,hk=2,sq=20,sk=40,d=64,dv=128,lse=0", "flash m=32 n=32 warps=2 stages=1 pack=1"}));

INSTANTIATE_TEST_SUITE_P(
    Split, Attention,
    ::testing::Values(
        Case{"b=2,hq=8,hk=2,sq=1,sk=300,d=64", "split m=16 n=16 warps=4 stages=3 pack=4 splits=3"},
        Case{"b=1,hq=4,hk=2,sq=7,sk=100,d=128,dtype=f16,causal", "split m=16 n=32 warps=2 stages=2 pack=2 splits=2"},
        Case{"b=1,hq=2,hk=1,sq=5,sk=77,d=80,causal,align=2", "split m=16 n=16 warps=2 stages=2 pack=2 splits=1"},
        Case{"b=1,hq=4,hk=2,sq=7,sk=100,d=128,causal,lse=0", "split m=16 n=32 warps=2 stages=2 pack=2 splits=2"},
        Case{"b=1,hq=1,hk=1,sq=3,sk=5,d=192,dv=128", "split m=16 n=16 warps=4 stages=2 pack=1 splits=4"},
        Case{"b=1,hq=1,hk=1,sq=130,sk=300,d=64,causal", "split m=64 n=32 warps=2 stages=2 pack=1 splits=3"}));

// A KV cache: pages smaller and larger than a step and no divisor of it, lengths of their own, windows; each sequence's
// keys in equal shares, and those of all cut evenly.
INSTANTIATE_TEST_SUITE_P(
    Cache, Attention,
    ::testing::Values(
        Case{"b=3,hq=4,hk=2,sq=1,sk=90,d=64,page=16", "split m=16 n=16 warps=2 stages=3 pack=2 splits=2"},
        Case{"b=2,hq=2,hk=1,sq=3,sk=70,d=64,causal,lens", "split m=16 n=32 warps=2 stages=2 pack=2 splits=2"},
        Case{"b=2,hq=2,hk=1,sq=5,sk=100,d=64,causal,left=20", "split m=16 n=16 warps=2 stages=3 pack=2 splits=2"},
        Case{"b=1,hq=2,hk=1,sq=5,sk=100,d=64,left=7,right=2", "split m=16 n=32 warps=2 stages=2 pack=2 splits=2"},
        Case{"b=5,hq=4,hk=2,sq=2,sk=150,d=64,causal,page=16,lens",
             "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=5"},
        Case{"b=5,hq=4,hk=2,sq=1,sk=130,d=128,dtype=f16,page=1,lens",
             "split m=16 n=32 warps=2 stages=2 pack=2 even=1 splits=7"},
        Case{"b=4,hq=4,hk=2,sq=3,sk=130,d=80,align=2,causal,page=3,lens",
             "split m=16 n=16 warps=4 stages=2 pack=2 even=1 splits=3"},
        Case{"b=4,hq=2,hk=1,sq=4,sk=300,d=64,causal,left=40,page=64,lens",
             "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=4"},
        Case{"b=3,hq=2,hk=1,sq=20,sk=140,d=64,dv=128,causal,page=1,lens",
             "split m=16 n=64 warps=2 stages=2 pack=2 even=1 splits=6"},
        Case{"b=37,hq=1,hk=1,sq=1,sk=40,d=64,page=16,lens", "split m=16 n=16 warps=1 stages=4 pack=1 even=1 splits=9"},
        Case{"b=2,hq=1,hk=1,sq=1,sk=20,d=64,lens", "split m=16 n=16 warps=2 stages=3 pack=1 even=1 splits=40"}));

// float32 by products of its terms, and head dim 16 in every type.
INSTANTIATE_TEST_SUITE_P(
    Float32, Attention,
    ::testing::Values(
        Case{"b=1,hq=4,hk=2,sq=70,sk=70,d=64,dtype=f32,causal", "flash m=64 n=32 warps=4 stages=2 pack=1 terms=3"},
        Case{"b=1,hq=2,hk=1,sq=33,sk=90,d=16,dtype=f32", "flash m=64 n=32 warps=2 stages=1 pack=1 terms=3", true},
        Case{"b=1,hq=4,hk=1,sq=19,sk=61,d=80,align=2,dtype=f32", "flash m=32 n=16 warps=2 stages=2 pack=4 terms=3"},
        Case{"b=2,hq=8,hk=2,sq=1,sk=300,d=128,dtype=f32", "split m=16 n=16 warps=2 stages=2 pack=4 terms=3 splits=3"},
        Case{"b=3,hq=4,hk=2,sq=2,sk=90,d=64,dv=32,dtype=f32,causal,page=16,lens",
             "split m=16 n=16 warps=2 stages=3 pack=2 terms=3 even=1 splits=4"},
        Case{"b=1,hq=2,hk=1,sq=5,sk=100,d=64,dtype=f32,left=7,right=2,softcap,sink",
             "split m=16 n=32 warps=2 stages=2 pack=2 terms=3 splits=2"},
        Case{"b=1,hq=2,hk=1,sq=20,sk=50,d=32,dtype=f32,ktrans", "flash m=32 n=32 warps=2 stages=2 pack=1 terms=3"},
        Case{"b=1,hq=2,hk=1,sq=20,sk=50,d=32,dtype=f32,scores=addtensor32",
             "flash m=32 n=32 warps=2 stages=2 pack=1 terms=3"}));

INSTANTIATE_TEST_SUITE_P(
    HeadDim16, Attention,
    ::testing::Values(Case{"b=1,hq=4,hk=2,sq=70,sk=70,d=16,causal", "flash m=64 n=32 warps=4 stages=2 pack=1"},
                      Case{"b=1,hq=4,hk=2,sq=20,sk=70,d=16,dv=64", "flash m=32 n=32 warps=2 stages=2 pack=1"},
                      Case{"b=1,hq=4,hk=2,sq=2,sk=170,d=16,dtype=f16,page=16,lens",
                           "split m=16 n=32 warps=2 stages=2 pack=2 even=1 splits=3"}));

}  // namespace
}  // namespace gqa::simt

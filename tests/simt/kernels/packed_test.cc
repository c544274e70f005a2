// Packed sequences on the CPU, of every family, against the naive loop: none, one and many queries,
// with fewer keys, more, and none; packed keys, and keys in pages. Keys of every other sequence are NaN, or rows of
// nobody lie between sequences: NaN in k and v, not to be written in out and lse.
#include <gtest/gtest.h>

#include <string>

#include "jit/codegen.h"
#include "tests/simt/kernels/cache_launch.h"

namespace gqa::simt {
namespace {

using Lengths = std::vector<std::int32_t>;

struct Case {
  const char *problem, *candidate;
  Lengths queries = {}, keys = {};
  bool heads_first = false;
};

class Packed : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
    EXPECT_TRUE(parse(GetParam().candidate, &candidate_).ok()) << GetParam().candidate;
    EXPECT_TRUE(parse(GetParam().problem, &problem_).ok()) << GetParam().problem;
  }

  ::testing::AssertionResult right(int gap, int blind) {
    const Case& c = GetParam();
    return judged({attention_source(problem_, candidate_)}, [&](const Kernel& kernel) {
      test::CacheCase t(c.problem, c.keys, c.heads_first, {c.queries, gap, blind});
      return cache_agrees(kernel, candidate_, &t, 2);
    });
  }

  Candidate candidate_;
  Problem problem_;
};

TEST_P(Packed, AgreesWithTheNaiveLoopUnderEverySchedule) { EXPECT_TRUE(right(0, -1)); }

TEST_P(Packed, NoSequenceSeesItsNeighbours) {
  EXPECT_TRUE(right(0, 0));
  EXPECT_TRUE(right(0, 1));
}

TEST_P(Packed, RowsBetweenSequencesAreNobodys) { EXPECT_TRUE(right(3, -1)); }

const Lengths kQueries = {5, 0, 1, 70, 3, 40}, kKeys = {90, 7, 33, 20, 0, 40};  // none, one, more than keys, many
const Lengths kDecodes = {1, 1, 0, 2, 1, 1, 2, 1, 0, 1}, kCached = {150, 33, 20, 31, 32, 0, 1, 65, 0, 90};

INSTANTIATE_TEST_SUITE_P(
    Flash, Packed,
    ::testing::Values(Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,packk,lse",
                           "flash m=32 n=32 warps=2 stages=2 pack=1", kQueries, kKeys},
                      Case{"b=6,hq=4,hk=2,sq=70,sk=90,d=64,packq,packk,lse", "flash m=64 n=32 warps=4 stages=1 pack=2",
                           kQueries, kKeys, true},
                      Case{"b=6,hq=2,hk=2,sq=70,sk=90,d=32,left=9,right=2,packq,packk,lse",
                           "flash m=32 n=16 warps=1 stages=3 pack=1 head_swizzle=1", kQueries, kKeys},
                      Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,dv=128,dtype=f16,left=20,causal,packq,packk,lse",
                           "flash m=32 n=32 warps=2 stages=2 pack=2", kQueries, kKeys},
                      Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=80,align=2,causal,packq,packk,lse",
                           "flash m=16 n=32 warps=1 stages=2 pack=1", kQueries, kKeys}));

// Packed queries alone: keys in pages, with lengths and without, and dense; packed keys alone.
INSTANTIATE_TEST_SUITE_P(
    FlashBesideOtherKeys, Packed,
    ::testing::Values(
        Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,lens,page=7,lse", "flash m=32 n=32 warps=2 stages=2 pack=1",
             kQueries, kKeys},
        Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,left=20,causal,packq,lens,page=16,lse",
             "flash m=64 n=32 warps=4 stages=2 pack=2", kQueries, kKeys},
        Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,page=16,lse",
             "flash m=32 n=32 warps=1 stages=1 pack=1",
             {70, 0, 3}},
        Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,lse", "flash m=32 n=32 warps=1 stages=2 pack=1", {33, 70, 1}},
        Case{"b=6,hq=2,hk=1,sq=5,sk=90,d=64,causal,packk,lse", "flash m=16 n=32 warps=1 stages=2 pack=2", {}, kKeys}));

INSTANTIATE_TEST_SUITE_P(
    Split, Packed,
    ::testing::Values(Case{"b=10,hq=4,hk=2,sq=2,sk=150,d=64,causal,packq,packk,lse",
                           "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7", kDecodes, kCached},
                      Case{"b=10,hq=2,hk=1,sq=2,sk=150,d=64,causal,packq,packk,lse",
                           "split m=16 n=16 warps=2 stages=2 pack=2 splits=3", kDecodes, kCached},
                      Case{"b=10,hq=2,hk=1,sq=2,sk=150,d=64,causal,packq,lens,page=16,lse",
                           "split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=5", kDecodes, kCached},
                      Case{"b=10,hq=2,hk=1,sq=2,sk=150,d=64,left=40,causal,packq,lens,page=3,lse",
                           "split m=16 n=16 warps=1 stages=2 pack=2 even=1 splits=4", kDecodes, kCached},
                      Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,packk,lse",
                           "split m=32 n=16 warps=2 stages=2 pack=1 even=1 splits=9", kQueries, kKeys, true},
                      Case{"b=6,hq=1,hk=1,sq=70,sk=90,d=32,left=9,right=2,packq,packk,lse",
                           "split m=16 n=16 warps=2 stages=2 pack=1 splits=2", kQueries, kKeys},
                      Case{"b=3,hq=2,hk=1,sq=2,sk=90,d=64,causal,packq,lse",
                           "split m=16 n=32 warps=2 stages=2 pack=2 even=1 splits=3",
                           {2, 0, 1}},
                      Case{"b=10,hq=2,hk=1,sq=2,sk=150,d=80,align=2,causal,packk,lse",
                           "split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=3",
                           {},
                           kCached}));

// One warpgroup, two and three, static and dynamic, heads packed, rows from registers, by TMA and panel by panel,
// shared rows, a column of ones.
INSTANTIATE_TEST_SUITE_P(
    Warpgroup, Packed,
    ::testing::Values(Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,packk,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1", kQueries, kKeys},
                      Case{"b=6,hq=4,hk=2,sq=70,sk=90,d=64,packq,packk,lse,dtype=f16",
                           "warpgroup m=64 n=64 warps=4 stages=3 pack=2 dynamic=0 out=1", kQueries, kKeys},
                      Case{"b=6,hq=2,hk=2,sq=70,sk=90,d=32,causal,packq,packk,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=0", kQueries, kKeys},
                      Case{"b=5,hq=2,hk=1,sq=150,sk=200,d=64,dv=128,causal,packq,packk,lse",
                           "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=1 out=2 head_swizzle=1",
                           {150, 128, 1, 0, 65},
                           {200, 3, 0, 40, 65}},
                      Case{"b=4,hq=2,hk=1,sq=150,sk=200,d=64,packq,packk",
                           "warpgroup m=192 n=64 warps=12 stages=2 pack=2 dynamic=0 out=1",
                           {150, 0, 96, 7},
                           {200, 3, 0, 65}},
                      Case{"b=4,hq=1,hk=1,sq=100,sk=200,d=64,causal,packq,packk,lse",
                           "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           {100, 64, 0, 63},
                           {200, 128, 5, 64}},
                      Case{"b=4,hq=1,hk=1,sq=150,sk=200,d=64,causal,packq,packk",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 ones_column=1",
                           {150, 1, 0, 64},
                           {200, 33, 9, 150}}));

// Packed queries on caches, dense and in pages; packed keys alone.
INSTANTIATE_TEST_SUITE_P(
    WarpgroupBesideOtherKeys, Packed,
    ::testing::Values(Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,lens,page=8,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1", kQueries, kKeys},
                      Case{"b=6,hq=2,hk=1,sq=70,sk=90,d=64,packq,lens,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=0 out=1", kQueries, kKeys},
                      Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,causal,packq,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1",
                           {33, 70, 1}},
                      Case{"b=6,hq=2,hk=1,sq=5,sk=90,d=64,causal,packk,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=1 out=1",
                           {},
                           kKeys}));

// Nobody has queries, or keys: a list of no blocks, and outputs of zeros.
INSTANTIATE_TEST_SUITE_P(Nothing, Packed,
                         ::testing::Values(Case{"b=3,hq=2,hk=1,sq=2,sk=90,d=64,causal,packq,packk,lse",
                                                "split m=16 n=32 warps=2 stages=2 pack=2 even=1 splits=3",
                                                {0, 0, 0},
                                                {5, 90, 7}},
                                           Case{"b=3,hq=2,hk=1,sq=2,sk=90,d=64,causal,packq,packk,lse",
                                                "split m=16 n=32 warps=2 stages=2 pack=2 even=1 splits=3",
                                                {1, 0, 2},
                                                {0, 0, 0}},
                                           Case{"b=3,hq=2,hk=1,sq=20,sk=90,d=64,packq,packk,lse",
                                                "flash m=16 n=32 warps=1 stages=2 pack=1",
                                                {1, 0, 20},
                                                {0, 0, 0}},
                                           Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,packq,packk,lse",
                                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1",
                                                {0, 0, 0},
                                                {5, 90, 7}},
                                           Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,packq,packk,lse",
                                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1",
                                                {1, 0, 70},
                                                {0, 0, 0}}));

Case many_short_sequences(const char* candidate) {
  Case c = {"b=300,hq=2,hk=1,sq=4,sk=22,d=32,causal,packq,packk,lse", candidate};
  for (int i = 0; i < 300; ++i) {
    c.queries.push_back(i % 5);
    c.keys.push_back(i * 7 % 23);
  }
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    HundredsOfShortSequences, Packed,
    ::testing::Values(many_short_sequences("split m=16 n=16 warps=2 stages=2 pack=2 even=1 splits=11"),
                      many_short_sequences("flash m=16 n=32 warps=1 stages=2 pack=2"),
                      many_short_sequences("warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=1 out=1"),
                      many_short_sequences("warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=0 out=1")));

}  // namespace
}  // namespace gqa::simt

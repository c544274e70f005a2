// The warpgroup family on sequences with keys of their own, on the CPU against the naive loop: lengths around a step's,
// none and all; with a mask and without; every kind of tile. Slots that no sequence uses hold NaN.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

using Lengths = std::vector<std::int32_t>;

struct Case {
  const char *problem, *candidate;
  Lengths lengths;
  int sms = 2;
  bool heads_first = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.problem << " | " << c.candidate; }

struct Fault {
  const char* header = "";
  std::string from = "", to = "";
};

// The answer to a case of a kernel with a fault in it.
::testing::AssertionResult right(const Case& c, const Fault& fault = {}) {
  test::CacheCase t(c.problem, c.lengths, c.heads_first);
  Candidate candidate;
  if (const Status s = parse(c.candidate, &candidate); !s.ok()) return ::testing::AssertionFailure() << s.message();
  const KernelText text = {attention_source(t.call.problem, candidate), planted(fault.header, fault.from, fault.to)};
  return judged(text, [&](const Kernel& kernel) { return cache_agrees(kernel, candidate, &t, c.sms); });
}

class WarpgroupCache : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_P(WarpgroupCache, AgreesWithTheNaiveLoopUnderEverySchedule) { EXPECT_TRUE(right(GetParam())); }

const Lengths kAround = {0, 1, 63, 64, 65, 200};

// One warpgroup, two and three, static and dynamic, heads packed, rows from registers and by TMA.
INSTANTIATE_TEST_SUITE_P(Tiles, WarpgroupCache,
                         ::testing::Values(Case{"b=6,hq=2,hk=1,sq=100,sk=200,d=64,causal,lens,lse",
                                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0", kAround},
                                           Case{"b=6,hq=2,hk=1,sq=5,sk=200,d=64,lens,lse",
                                                "warpgroup m=64 n=64 warps=4 stages=3 pack=2 dynamic=1 out=1", kAround},
                                           Case{"b=6,hq=1,hk=1,sq=150,sk=200,d=64,causal,lens,lse",
                                                "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                                                {200, 65, 1, 0, 64, 63},
                                                3},
                                           Case{"b=6,hq=1,hk=1,sq=100,sk=200,d=32,lens,lse,dtype=f16",
                                                "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=1",
                                                {79, 80, 81, 0, 1, 200}},
                                           Case{"b=3,hq=1,hk=1,sq=200,sk=150,d=64,causal,lens,lse",
                                                "warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1",
                                                {150, 3, 64},
                                                1},
                                           Case{"b=3,hq=2,hk=1,sq=40,sk=150,d=128,dv=192,causal,lens,lse",
                                                "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=2 q_regs=2",
                                                {150, 0, 70},
                                                2,
                                                true}));

// Two warpgroups on the same rows; halves and a column of ones beside the values; half blocks first.
INSTANTIATE_TEST_SUITE_P(
    Softmaxes, WarpgroupCache,
    ::testing::Values(Case{"b=6,hq=1,hk=1,sq=60,sk=300,d=64,causal,lens,lse",
                           "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           {0, 1, 64, 129, 300, 191}},
                      Case{"b=6,hq=1,hk=1,sq=60,sk=300,d=64,lens,lse",
                           "warpgroup m=64 n=64 warps=8 stages=4 pack=1 dynamic=1 out=1",
                           {0, 1, 64, 129, 300, 191}},
                      Case{"b=6,hq=1,hk=1,sq=130,sk=300,d=64,causal,lens",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1",
                           {0, 1, 33, 129, 300, 191}},
                      Case{"b=4,hq=1,hk=1,sq=100,sk=300,d=64,lens,dtype=f16",
                           "warpgroup m=64 n=128 warps=4 stages=2 pack=1 dynamic=1 out=1 ones_column=1 queries=2",
                           {300, 0, 127, 129}}));

// Pages as large as a step, smaller and larger ones, and such as divide neither; of all sequences as many keys.
INSTANTIATE_TEST_SUITE_P(
    Pages, WarpgroupCache,
    ::testing::Values(Case{"b=6,hq=2,hk=1,sq=100,sk=200,d=64,causal,page=16,lens,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0", kAround},
                      Case{"b=6,hq=2,hk=2,sq=5,sk=200,d=64,page=8,lens,lse",
                           "warpgroup m=64 n=64 warps=4 stages=3 pack=1 dynamic=1 out=1", kAround},
                      Case{"b=5,hq=2,hk=1,sq=150,sk=200,d=128,causal,page=64,lens,lse",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                           {200, 65, 1, 0, 64},
                           3},
                      Case{"b=4,hq=1,hk=1,sq=100,sk=300,d=64,dv=128,page=128,lens,lse,dtype=f16",
                           "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           {300, 127, 128, 81}},
                      Case{"b=3,hq=1,hk=1,sq=200,sk=150,d=64,causal,page=24,lens,lse",
                           "warpgroup m=192 n=96 warps=12 stages=2 pack=1 dynamic=0 out=1",
                           {150, 3, 96},
                           1},
                      Case{"b=3,hq=1,hk=1,sq=60,sk=300,d=64,causal,page=32,lens,lse",
                           "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           {300, 0, 129},
                           2,
                           true},
                      Case{"b=3,hq=1,hk=1,sq=130,sk=300,d=64,causal,page=16,lens",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1",
                           {33, 300, 191}},
                      Case{"b=3,hq=2,hk=1,sq=70,sk=90,d=64,causal,page=16,lse",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=1",
                           {}}));

const Case kCausal = {"b=5,hq=1,hk=1,sq=100,sk=200,d=64,causal,lens,lse",
                      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                      {0, 130, 63, 64, 200}};
const Case kFull = {"b=5,hq=1,hk=1,sq=100,sk=200,d=64,lens,lse",
                    "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=1 out=0",
                    {0, 130, 63, 64, 200}};

class WarpgroupCacheMutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  static void expect_seen(const Fault& fault) {
    EXPECT_FALSE(right(kCausal, fault)) << fault.to;
    EXPECT_FALSE(right(kFull, fault)) << fault.to;
  }
};

constexpr const char* kTails = "attention/wgmma_flash/value_tails.cuh";
constexpr const char* kProducer = "attention/wgmma_flash/warpgroup_producer.cuh";
constexpr const char* kSequence = "attention/wgmma_flash/tile_sequence.cuh";

TEST_F(WarpgroupCacheMutants, NothingPlanted) {
  EXPECT_TRUE(right(kCausal));
  EXPECT_TRUE(right(kFull));
}

TEST_F(WarpgroupCacheMutants, ValuesPastTheEndThatStay) {
  expect_seen({kProducer, "if (rows < Config::kTileN) return", "if (rows < 0) return"});
  expect_seen({kTails, "first = at.rows * kPanelRowBytes", "first = (at.rows + 1) * kPanelRowBytes"});
  expect_seen({kTails, "byte = first + lane * kPiece", "byte = first + lane * kPiece + 512"});
  expect_seen({kTails, "byte += 32 * kPiece", "byte += 64 * kPiece"});
}

TEST_F(WarpgroupCacheMutants, AValueOfTheSequenceZeroed) {
  expect_seen({kTails, "first = at.rows * kPanelRowBytes", "first = max(0, at.rows - 1) * kPanelRowBytes"});
}

TEST_F(WarpgroupCacheMutants, ZerosThatAreNotOrdered) {
  expect_seen({kTails, "fence_async();  // before wgmma reads", ""});
  expect_seen({kTails, "    __syncwarp();\n", ""});
  expect_seen({kTails, "cursor.wait_full(tails.ring);", ""});
}

TEST_F(WarpgroupCacheMutants, ABufferNamedOntoTheOneBefore) {
  expect_seen({kTails, "tails_named.wait_empty(tails.ring);", ""});
}

TEST_F(WarpgroupCacheMutants, AWarpThatNeverEnds) {
  expect_seen({"attention/wgmma_flash/warpgroup_flash.cuh", "producer.end_tails(smem.tails);", ""});
}

TEST_F(WarpgroupCacheMutants, ALimitOffByOne) {
  expect_seen({kSequence, "words->word[0]", "words->word[0] + 1"});
  expect_seen({kSequence, "words->word[0]", "words->word[0] - 1"});
  expect_seen({kSequence, "words->word[0]", "p.kv_len"});
  expect_seen({kSequence, "cache, sequence)", "cache, 0)"});
}

}  // namespace
}  // namespace gqa::simt

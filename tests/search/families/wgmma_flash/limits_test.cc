// limits_test.cc: what is refused of wgmma_flash, and in which words. No device is asked.
#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

// A warpgroup candidate that runs, with some of its fields changed.
std::string warpgroup(std::string_view changed = "", std::string_view problem = "hq=32,hk=8,sq=4096,d=128",
                      const DeviceSpec& device = h200()) {
  const std::string base = "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1";
  return reason(problem, with_fields(base, changed), device);
}

TEST(Prune, WarpgroupNeedsHopperAndTensorMaps) {
  EXPECT_EQ(warpgroup(), "");
  EXPECT_EQ(warpgroup("head_swizzle=3"), "");
  for (const char* arch : {"sm_80", "sm_89", "sm_100a"}) {
    EXPECT_EQ(warpgroup("", "hq=32,hk=8,sq=4096,d=128", *DeviceSpec::for_arch(arch)),
              "warpgroup needs wgmma, which only sm_90a has; the device is " + std::string(arch));
  }
  EXPECT_EQ(warpgroup("", "hq=32,hk=8,sq=4096,d=128", host()), "warpgroup: the host has no wgmma");
  EXPECT_EQ(warpgroup("", "hq=32,sq=4096,d=128,align=2"), "rows aligned to 2 bytes: TMA needs 16");
  EXPECT_EQ(warpgroup("", "hq=32,sq=4096,d=128,notma"),
            "strides that no tensor map can express: TMA needs them at least 0 and below 2^40 bytes");
}

TEST(Prune, TransposedKeysComeInPanelsAndNotToTheHost) {
  const char* transposed = "hq=32,hk=8,sq=4096,d=128,ktrans";
  EXPECT_EQ(warpgroup("", transposed), "");
  EXPECT_EQ(warpgroup("n=80", transposed), "step of 80 keys: transposed keys come in panels of 64");
  EXPECT_EQ(reason(transposed, "flash m=128 n=48 warps=4 stages=2 pack=1"), "");
  EXPECT_EQ(reason(transposed, "flash m=128 n=64 warps=1 stages=1 pack=1", host()),
            "the host serves no transposed keys");
  for (const int d : {16, 32, 64, 80, 96, 112, 128, 192, 256}) {
    bool warpgroup = false, flash = false;
    for (const Ranked& ranked : enumerate(problem_of("hq=8,sq=4096,ktrans,d=" + std::to_string(d)), h200()).ranked) {
      warpgroup = warpgroup || name(ranked.candidate) == "warpgroup";
      flash = flash || name(ranked.candidate) == "flash";
    }
    EXPECT_TRUE(warpgroup && flash) << d;
  }
}

TEST(Prune, WarpgroupFields) {
  EXPECT_EQ(warpgroup("m=96"), "tile of 96 rows: warpgroup has 64, 128 or 192");
  EXPECT_EQ(warpgroup("m=256"), "tile of 256 rows: warpgroup has 64, 128 or 192");
  EXPECT_EQ(warpgroup("n=72"), "step of 72 keys: expected a multiple of 16");
  EXPECT_EQ(warpgroup("n=272"), "step of 272 keys: wgmma takes at most 256");
  EXPECT_EQ(warpgroup("warps=4"), "4 warps for 128 rows: warpgroup gives a warp 16, or two warpgroups the same 64");
  EXPECT_EQ(warpgroup("stages=0"), "stages=0: warpgroup has 1 to 4");
  EXPECT_EQ(warpgroup("stages=5"), "stages=5: warpgroup has 1 to 4");
  EXPECT_EQ(warpgroup("dynamic=0"), "");
  EXPECT_EQ(warpgroup("dynamic=2"), "dynamic=2: warpgroup has 0 to 1");
  EXPECT_EQ(warpgroup("out=0"), "");
  EXPECT_EQ(warpgroup("out=5"), "out=5: warpgroup has 0 to 4");
  EXPECT_EQ(warpgroup("splits=2"), "2 splits: warpgroup has 1");
}

TEST(Prune, WarpgroupsThatShareKeys) {
  EXPECT_EQ(warpgroup("m=64 warps=8 stages=2 out=1"), "");
  EXPECT_EQ(warpgroup("m=64 warps=8 stages=2 out=0"),
            "two warpgroups on the same rows without out=1: they hand over beside it");
  EXPECT_EQ(warpgroup("m=64 warps=8 stages=3 out=1"),
            "3 stages for two warpgroups on the same rows: expected as many for each");
}

TEST(Prune, OnesColumn) {
  const std::string ones = "m=192 warps=12 stages=4 ones_column=1", problem = "hq=32,hk=8,sq=4096,d=64";
  EXPECT_EQ(warpgroup(ones, problem), "");
  EXPECT_EQ(warpgroup(ones, problem + ",dtype=f16,causal"), "");
  EXPECT_EQ(warpgroup(ones, problem + ",lse"),
            "ones_column=1 sums rounded weights: too coarse for the log-sum-exp that is asked for");
  EXPECT_EQ(warpgroup(ones, "hq=32,hk=8,sq=4096,d=64,dv=128"),
            "ones_column=1 beside values of head_dim_v 128: expected 64");
  EXPECT_EQ(warpgroup(ones, problem + ",ktrans"), "ones_column=1 with halves of transposed keys: halves are rows");
  EXPECT_EQ(warpgroup(ones + " n=80", problem),
            "a ones column beside halves of 80 keys, 4 stages: expected a multiple of 32, 2 stages or more, out=1 and "
            "no shared rows");
  EXPECT_NE(warpgroup(ones + " out=0", problem), "");
  EXPECT_NE(warpgroup("m=192 warps=12 stages=1 ones_column=1", problem), "");
  EXPECT_NE(warpgroup("m=64 n=64 warps=8 stages=2 ones_column=1", problem), "");
  EXPECT_EQ(warpgroup("ones_column=2", problem), "ones_column=2: warpgroup has 0 to 1");
}

TEST(Prune, WhatAClusterOrQInRegistersLacks) {
  EXPECT_EQ(warpgroup("cluster=2 dynamic=0"), "");
  EXPECT_EQ(warpgroup("cluster=2 dynamic=0 head_swizzle=3 out=0 q_regs=8"), "");
  EXPECT_EQ(warpgroup("cluster=3"), "cluster=3: warpgroup has 1 to 2");
  EXPECT_EQ(warpgroup("cluster=2 dynamic=1"), "");
  EXPECT_EQ(warpgroup("cluster=2 m=64 n=64 warps=4 out=0"),
            "cluster=2: expected one CTA an SM, and so 128 rows or more");
  EXPECT_EQ(warpgroup("cluster=2 dynamic=0", "hq=32,hk=8,sq=128,sk=4096,d=128"),
            "cluster of 2 tiles for 128 query rows");
  DeviceSpec one = h200();
  one.sms = 1;
  EXPECT_EQ(warpgroup("cluster=2 dynamic=0", "hq=32,hk=8,sq=4096,d=128", one), "cluster of 2 on 1 SMs");
  EXPECT_EQ(warpgroup("q_regs=8"), "");
  EXPECT_EQ(warpgroup("q_regs=9"), "q_regs=9 times 16 columns of Q: head_dim is 128");
  EXPECT_EQ(warpgroup("q_regs=17"), "q_regs=17: warpgroup has 0 to 16");
  EXPECT_EQ(warpgroup("q_regs=16 n=64 out=0", "hq=32,sq=4096,d=256"),
            "needs about 268 registers a consumer thread, 2 consumer warpgroups leave it 232");
  EXPECT_EQ(warpgroup("queries=2 n=64"), "");
  EXPECT_EQ(warpgroup("queries=3"), "queries=3: warpgroup has 1 to 2");
  EXPECT_EQ(warpgroup("queries=2 out=0"), "");
}

TEST(Prune, WhatStreamKLacks) {
  const char* full = "hq=16,sq=16384,d=128";  // 2,048 tiles of 128 rows: 15.5 rounds
  EXPECT_EQ(warpgroup("stream_k=132 dynamic=0", full), "");
  EXPECT_EQ(warpgroup("stream_k=66 dynamic=0 cluster=2", full), "");
  EXPECT_EQ(warpgroup("stream_k=132 dynamic=0 m=64 n=64 warps=4", full),
            "stream_k=132: expected one CTA an SM, and so 128 rows or more");
  EXPECT_EQ(warpgroup("stream_k=132 dynamic=0", "hq=16,sq=16384,d=128,causal"),
            "stream_k=132 under a causal mask: its last tiles are the shortest ones");
  EXPECT_EQ(warpgroup("stream_k=128 dynamic=0", full), "stream_k=128: 2,048 tiles nearly fill 16 waves");
  EXPECT_EQ(warpgroup("stream_k=132 dynamic=0 out=0 n=80", "hq=8,sq=16384,d=256"),
            "stream_k=132 with steps of 80 keys: beside 256 columns of out they leave too few registers for it");
  EXPECT_EQ(warpgroup("stream_k=70000 dynamic=0", full), "stream_k=70,000: warpgroup has 0 to 65,536");
}

TEST(Prune, WarpgroupPacksAndSizes) {
  EXPECT_EQ(warpgroup("pack=4", "hq=32,hk=8,sq=300,sk=4096,d=128"), "");
  EXPECT_EQ(warpgroup("pack=3", "hq=6,hk=2,sq=300,sk=4096,d=128"),
            "pack of 3 does not divide the 64 rows of a warpgroup");
  EXPECT_EQ(warpgroup("pack=8", "hq=32,hk=8,sq=300,sk=4096,d=128"),
            "pack of 8 does not divide the group of 4 query heads");
  EXPECT_EQ(warpgroup("pack=4"), "packing 4 heads gains nothing: one head fills 32 tiles");
  EXPECT_EQ(warpgroup("", "hq=32,sq=64,sk=4096,d=128"), "tile of 128 rows for 64 query rows");
  EXPECT_EQ(warpgroup("", "hq=32,sq=4096,sk=64,d=128"), "step of 128 keys for 64 keys");
  EXPECT_EQ(warpgroup("stages=3"), "needs 263,168 bytes of shared memory, the device has 232,448");
  EXPECT_EQ(warpgroup("stages=1", "hq=8,sq=4096,d=256"),
            "needs 263,168 bytes of shared memory, the device has 232,448");
  EXPECT_EQ(warpgroup("stages=1 out=0 n=112", "hq=8,sq=4096,d=256"),
            "needs about 240 registers a consumer thread, 2 consumer warpgroups leave it 232");
  EXPECT_EQ(warpgroup("m=192 warps=12 stages=1 out=0"),
            "needs about 188 registers a consumer thread, 3 consumer warpgroups leave it 160");
}

// Tiles of 64 rows share an SM by two: both must fit its shared memory, and its registers before the producers
// give theirs up.
TEST(Prune, WarpgroupsThatShareAProcessor) {
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 n=64"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 stages=1"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0"), "2 blocks an SM need 299,008 bytes of shared memory, it has 233,472");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 stages=3 n=64"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=3 n=64"),
            "2 blocks an SM need 266,240 bytes of shared memory, it has 233,472");
  EXPECT_EQ(warpgroup("out=0"), "");  // as much a row, but alone
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=1 out=0 n=64", "hq=8,sq=4096,d=256"),
            "a wgmma needs about 158 registers, a thread is launched with 128");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=1 out=0 n=208", "hq=8,sq=4096,d=32"),
            "a wgmma needs about 134 registers, a thread is launched with 128");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=1 out=0 n=192", "hq=8,sq=4096,d=32"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=1 out=0 n=144", "hq=8,sq=4096,d=32,dv=192"),
            "needs about 232 registers a consumer thread, 1 consumer warpgroups leave it 224");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=1 out=0 n=128", "hq=8,sq=4096,d=32,dv=192"), "");
  EXPECT_EQ(warpgroup("m=128 stages=1 out=0 n=64", "hq=8,sq=4096,d=256"), "");  // one block: 170 registers
}

}  // namespace
}  // namespace gqa

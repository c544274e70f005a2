// space_test.cc: the space: what is in it, what is pruned and in which words, how it is ranked. No device is asked.
#include "search/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "search/resources.h"

namespace gqa {
namespace {

Problem problem_of(std::string_view text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

Candidate candidate_of(std::string_view text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_TRUE(status.ok()) << status.message();
  return candidate;
}

DeviceSpec h200() { return *DeviceSpec::for_arch("sm_90a"); }

DeviceSpec host() {
  DeviceSpec spec;
  spec.kind = DeviceKind::kHost;
  spec.arch = "x86-64-avx512";
  spec.processors = 16;
  spec.smem_per_block = 2 << 20;
  spec.l2_bytes = 64 << 20;
  spec.tensor_flops = 1.5e12;
  spec.memory_bandwidth = 2e11;
  return spec;
}

std::string reason(std::string_view problem, std::string_view candidate, const DeviceSpec& device = h200()) {
  return reject_reason(problem_of(problem), candidate_of(candidate), device);
}

constexpr const char* kShapes[] = {
    "hq=32,hk=8,sq=4096,d=128,causal",
    "hq=32,hk=8,sq=16384,d=128,causal",
    "hq=32,hk=32,sq=16384,d=64",
    "hq=8,sq=16384,d=256,causal",
    "hq=16,sq=100,sk=7,d=80,causal",
    "b=3,hq=7,hk=1,sq=33,sk=2000,d=96,dtype=f16",
    "hq=128,hk=1,sq=2,sk=5000,d=192,dv=128,causal",
    "hq=32,hk=8,sq=1,sk=8192,d=128",
    "b=128,hq=64,hk=8,sq=1,sk=8192,d=128",
    "hq=1,sq=1,sk=1,d=32,align=2",
    "b=70000,hq=5,sq=1,sk=16,d=256",
    "b=2,hq=6,hk=1,sq=1048576,sk=1048576,d=112,causal",
};

std::vector<DeviceSpec> devices() {
  std::vector<DeviceSpec> found = {host()};
  for (const std::string& arch : DeviceSpec::known_archs()) found.push_back(*DeviceSpec::for_arch(arch));
  return found;
}

TEST(Space, EveryProblemHasCandidatesOnEveryDevice) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Space space = enumerate(problem_of(shape), device);
      EXPECT_FALSE(space.ranked.empty()) << shape << " on " << device.arch;
    }
    for (const int d : {32, 64, 80, 96, 112, 128, 192, 256}) {
      for (const int dv : {32, 128, 256}) {
        Problem p = problem_of("hq=4,hk=1,sq=300,sk=300,d=64");
        p.head_dim = d;
        p.head_dim_v = dv;
        EXPECT_FALSE(enumerate(p, device).ranked.empty()) << to_text(p) << " on " << device.arch;
      }
    }
  }
}

TEST(Space, NothingIsListedTwiceAndVerdictsAgree) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      const Space space = enumerate(p, device);
      std::set<Candidate> seen;
      for (const Ranked& r : space.ranked) {
        EXPECT_TRUE(seen.insert(r.candidate).second) << to_text(r.candidate);
        EXPECT_EQ(reject_reason(p, r.candidate, device), "");
        EXPECT_EQ(predict_us(p, r.candidate, device), r.predicted_us);
        EXPECT_TRUE(r.predicted_us > 0 && r.predicted_us < 1e12) << to_text(r.candidate);
      }
      for (const Rejected& r : space.rejected) {
        EXPECT_TRUE(seen.insert(r.candidate).second) << to_text(r.candidate);
        EXPECT_FALSE(r.reason.empty());
      }
      EXPECT_TRUE(std::is_sorted(space.ranked.begin(), space.ranked.end(), [](const Ranked& a, const Ranked& b) {
        return a.predicted_us != b.predicted_us ? a.predicted_us < b.predicted_us : a.candidate < b.candidate;
      }));
    }
  }
}

TEST(Space, WhatIsRankedFitsTheDevice) {
  for (const DeviceSpec& device : devices()) {
    if (device.kind == DeviceKind::kHost) continue;
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      for (const Ranked& r : enumerate(p, device).ranked) {
        const LaunchPlan launch = plan(p, r.candidate);
        EXPECT_LE(launch.shared_memory, device.smem_per_block);
        EXPECT_LE(registers(p, r.candidate), 255);
        EXPECT_LE(launch.threads, 1024);
        EXPECT_LE(launch.blocks, 2147483647);
        EXPECT_EQ(p.group() % r.candidate.pack, 0);
      }
    }
  }
}

TEST(Space, TheHostHasOneWarpAndOneStage) {
  for (const char* shape : kShapes) {
    for (const Ranked& r : enumerate(problem_of(shape), host()).ranked) {
      EXPECT_EQ(r.candidate.warps, 1);
      EXPECT_EQ(r.candidate.stages, 1);
    }
  }
}

TEST(Space, EnumerationIsDeterministic) {
  for (const char* shape : kShapes) {
    const Space a = enumerate(problem_of(shape), h200()), b = enumerate(problem_of(shape), h200());
    ASSERT_EQ(a.ranked.size(), b.ranked.size());
    ASSERT_EQ(a.rejected.size(), b.rejected.size());
    for (std::size_t i = 0; i < a.ranked.size(); ++i) EXPECT_EQ(a.ranked[i].candidate, b.ranked[i].candidate);
    for (std::size_t i = 0; i < a.rejected.size(); ++i) EXPECT_EQ(a.rejected[i].reason, b.rejected[i].reason);
  }
}

TEST(Space, EnumerationIsQuick) {
  double fastest = 1e9;  // of several, so that a busy machine does not fail it
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const char* shape : kShapes) EXPECT_FALSE(enumerate(problem_of(shape), h200()).ranked.empty());
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(fastest / std::size(kShapes), 0.1) << "seconds a problem; about 0.0001 when optimised";
}

TEST(Prune, ReasonsNameWhatIsNeededAndWhatThereIs) {
  const char* prefill = "hq=32,hk=8,sq=4096,d=128,causal";
  EXPECT_EQ(reason(prefill, "flash m=128 n=64 warps=4 stages=2 pack=1"), "");
  EXPECT_EQ(reason(prefill, "flash m=128 n=128 warps=4 stages=3 pack=1"),
            "needs 243,712 bytes of shared memory, the device has 232,448");
  EXPECT_EQ(reason("hq=8,sq=4096,d=256", "flash m=128 n=64 warps=4 stages=1 pack=1"),
            "needs about 376 registers a thread, a thread has 255");
  EXPECT_EQ(reason("hq=8,sq=4096,d=128", "flash m=256 n=64 warps=16 stages=1 pack=1"),
            "needs about 73,728 registers a block, the device has 65,536");
  EXPECT_EQ(reason(prefill, "flash m=128 n=64 warps=4 stages=2 pack=3"),
            "pack of 3 does not divide the group of 4 query heads");
  EXPECT_EQ(reason(prefill, "flash m=128 n=64 warps=4 stages=2 pack=4"),
            "packing 4 heads gains nothing: one head fills 32 tiles");
  EXPECT_EQ(reason("hq=8,sq=20,d=64", "flash m=64 n=32 warps=4 stages=2 pack=1"), "tile of 64 rows for 20 query rows");
  EXPECT_EQ(reason("hq=8,sq=40,d=64", "flash m=64 n=128 warps=4 stages=2 pack=1"), "step of 128 keys for 40 keys");
}

TEST(Prune, SplitReasons) {
  const char* decode = "hq=32,hk=8,sq=1,sk=4096,d=128";
  EXPECT_EQ(reason(decode, "split m=16 n=32 warps=4 stages=3 pack=4 splits=16"), "");
  EXPECT_EQ(reason(decode, "split m=16 n=32 warps=4 stages=3 pack=4 splits=100"),
            "100 splits of 4,096 keys leave 36 without keys");
  EXPECT_EQ(reason("hq=64,hk=8,sq=99,sk=4096,d=128", "split m=64 n=32 warps=4 stages=2 pack=1"),
            "99 query rows a head group: split takes at most 64");
  // Few heads: flash's tiles would leave most of the device idle.
  EXPECT_EQ(reason("b=2,hq=1,sq=256,sk=4096,d=64", "split m=32 n=32 warps=4 stages=2 pack=1 splits=16"), "");
  EXPECT_EQ(reason("b=2,hq=1,sq=600,sk=4096,d=64", "split m=32 n=32 warps=4 stages=2 pack=1 splits=16"),
            "600 query rows a head group: split takes at most 512");
  EXPECT_EQ(reason(decode, "split m=16 n=32 warps=4 stages=3 pack=4 order=1"), "order 1: split has no tile order");
  EXPECT_EQ(reason(decode, "split m=32 n=32 warps=4 stages=3 pack=4"), "tile of 32 rows for 4 query rows");
}

TEST(Prune, MeaninglessFields) {
  const char* p = "hq=32,hk=8,sq=4096,d=128";
  EXPECT_EQ(reason(p, "flash m=0 n=64 warps=4 stages=2 pack=1"), "tile of 0 rows: expected a multiple of 16");
  EXPECT_EQ(reason(p, "flash m=64 n=20 warps=4 stages=2 pack=1"), "step of 20 keys: expected a multiple of 16");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=0 stages=2 pack=1"), "0 warps: expected 1 to 32");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=0"), "pack of 0: expected at least 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 splits=0"), "0 splits: expected at least 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 order=2"), "");  // two head groups together
  Candidate backwards = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1");
  backwards.order = -1;
  EXPECT_EQ(reject_reason(problem_of(p), backwards, h200()), "order -1: expected at least 0");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=1 stages=2 pack=1"), "64 rows over 1 warps: flash gives a warp 16 or 32");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=4 pack=1"), "4 stages: flash has 1 to 3");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 splits=2"), "2 splits: flash has 1");
  EXPECT_EQ(reason(p, "split m=128 n=64 warps=4 stages=2 pack=1"), "tile of 128 rows: split has at most 64");
  EXPECT_EQ(reason(p, "split m=64 n=64 warps=4 stages=1 pack=1"), "1 stages: split has 2 to 6");
  EXPECT_EQ(reason(p, "split m=64 n=64 warps=16 stages=2 pack=1"), "16 warps: split has at most 8");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=1 pack=1", host()), "4 warps: the host has 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=1 stages=2 pack=1", host()), "2 stages: the host has 1");
  EXPECT_EQ(reason("b=65536,hq=256,sq=16384,d=32", "flash m=16 n=32 warps=1 stages=2 pack=1"),
            "17,179,869,184 blocks: a grid has at most 2,147,483,647");
}

// A warpgroup candidate that runs, with some of its fields changed.
std::string warpgroup(std::string_view changed = "", std::string_view problem = "hq=32,hk=8,sq=4096,d=128",
                      const DeviceSpec& device = h200()) {
  std::string text = "warpgroup";
  std::string_view fields = "m=128 n=128 warps=8 stages=2 pack=1 draw=1 out=1 ";
  while (!fields.empty()) {
    const std::string_view field = fields.substr(0, fields.find(' '));
    const std::string key = " " + std::string(field.substr(0, field.find('=') + 1));
    if ((" " + std::string(changed)).find(key) == std::string::npos) text += " " + std::string(field);
    fields.remove_prefix(field.size() + 1);
  }
  if (!changed.empty()) text += " " + std::string(changed);
  return reason(problem, text, device);
}

TEST(Prune, WarpgroupNeedsHopperAndTensorMaps) {
  EXPECT_EQ(warpgroup(), "");
  EXPECT_EQ(warpgroup("order=3"), "");
  for (const char* arch : {"sm_80", "sm_90", "sm_100a"}) {
    EXPECT_EQ(warpgroup("", "hq=32,hk=8,sq=4096,d=128", *DeviceSpec::for_arch(arch)),
              "warpgroup needs wgmma, which only sm_90a has; the device is " + std::string(arch));
  }
  EXPECT_EQ(warpgroup("", "hq=32,hk=8,sq=4096,d=128", host()), "warpgroup: the host has no wgmma");
  EXPECT_EQ(warpgroup("", "hq=32,sq=4096,d=128,align=2"), "rows aligned to 2 bytes: the copy engine needs 16");
  EXPECT_EQ(warpgroup("", "hq=32,sq=4096,d=128,notma"),
            "strides that no tensor map can express: the copy engine needs them at least 0 and below 2^40 bytes");
}

TEST(Prune, TransposedKeysComeInPanelsAndNotToTheHost) {
  const char* transposed = "hq=32,hk=8,sq=4096,d=128,ktrans";
  EXPECT_EQ(warpgroup("", transposed), "");
  EXPECT_EQ(warpgroup("n=80", transposed), "step of 80 keys: transposed keys come in panels of 64");
  EXPECT_EQ(reason(transposed, "flash m=128 n=48 warps=4 stages=2 pack=1"), "");
  EXPECT_EQ(reason(transposed, "flash m=128 n=64 warps=1 stages=1 pack=1", host()),
            "keys given as (head_dim, keys): the host reads a key's elements side by side");
  for (const int d : {32, 64, 80, 96, 112, 128, 192, 256}) {
    bool warpgroup = false, flash = false;
    for (const Ranked& ranked : enumerate(problem_of("hq=8,sq=4096,ktrans,d=" + std::to_string(d)), h200()).ranked) {
      warpgroup = warpgroup || ranked.candidate.skeleton == Skeleton::kWarpgroup;
      flash = flash || ranked.candidate.skeleton == Skeleton::kFlash;
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
  EXPECT_EQ(warpgroup("draw=0"), "");
  EXPECT_EQ(warpgroup("draw=2"), "draw=2: warpgroup has 0 to 1");
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

TEST(Prune, SumsByProducts) {
  const std::string sums = "m=192 warps=12 stages=4 sums=1", problem = "hq=32,hk=8,sq=4096,d=64";
  EXPECT_EQ(warpgroup(sums, problem), "");
  EXPECT_EQ(warpgroup(sums, problem + ",dtype=f16,causal"), "");
  EXPECT_EQ(warpgroup(sums, problem + ",lse"),
            "sums of rounded weights: too coarse for the log-sum-exp that is asked for");
  EXPECT_EQ(warpgroup(sums, "hq=32,hk=8,sq=4096,d=64,dv=128"), "sums beside values of head_dim_v 128: expected 64");
  EXPECT_EQ(warpgroup(sums, problem + ",ktrans"), "sums of halves of transposed keys: halves are rows");
  EXPECT_EQ(
      warpgroup(sums + " n=80", problem),
      "sums of halves of 80 keys, 4 stages: expected a multiple of 32, 2 stages or more, out=1 and no shared rows");
  EXPECT_NE(warpgroup(sums + " out=0", problem), "");
  EXPECT_NE(warpgroup("m=192 warps=12 stages=1 sums=1", problem), "");
  EXPECT_NE(warpgroup("m=64 n=64 warps=8 stages=2 sums=1", problem), "");
  EXPECT_EQ(warpgroup("sums=2", problem), "sums=2: warpgroup has 0 to 1");
  EXPECT_EQ(warpgroup(sums + " poly=4", problem), "");
  EXPECT_EQ(warpgroup(sums + " poly=4", problem + ",dtype=f16"),
            "poly=4: its weights are bf16, those of the problem f16");
  const std::string alone = ": expected sums=1, since weights are then summed as rounded, and at least 2";
  EXPECT_EQ(warpgroup("poly=4", problem), "poly=4" + alone);
  EXPECT_EQ(warpgroup(sums + " poly=1", problem), "poly=1" + alone);
}

TEST(Prune, WhatAClusterOrHeldQueriesLack) {
  EXPECT_EQ(warpgroup("cluster=2 draw=0"), "");
  EXPECT_EQ(warpgroup("cluster=2 draw=0 order=3 out=0 held=8"), "");
  EXPECT_EQ(warpgroup("cluster=3"), "cluster=3: warpgroup has 1 to 2");
  EXPECT_EQ(warpgroup("cluster=2 draw=1"),
            "cluster=2: expected draw=0, since its CTAs walk together, and a CTA a processor");
  EXPECT_EQ(warpgroup("cluster=2 draw=0 m=64 n=64 warps=4"), warpgroup("cluster=2 draw=1"));
  EXPECT_EQ(warpgroup("cluster=2 draw=0", "hq=32,hk=8,sq=128,sk=4096,d=128"), "cluster of 2 tiles for 128 query rows");
  DeviceSpec one = h200();
  one.processors = 1;
  EXPECT_EQ(warpgroup("cluster=2 draw=0", "hq=32,hk=8,sq=4096,d=128", one), "cluster of 2 on 1 processors");
  EXPECT_EQ(warpgroup("held=8"), "");
  EXPECT_EQ(warpgroup("held=9"), "held=9 times 16 columns of queries: head_dim is 128");
  EXPECT_EQ(warpgroup("held=17"), "held=17: warpgroup has 0 to 16");
  EXPECT_EQ(warpgroup("held=16 n=64 out=0", "hq=32,sq=4096,d=256"),
            "needs about 268 registers a consumer thread, 2 consumer warpgroups leave it 232");
  EXPECT_EQ(warpgroup("queries=2 n=64"), "");
  EXPECT_EQ(warpgroup("queries=3"), "queries=3: warpgroup has 1 to 2");
  EXPECT_EQ(warpgroup("queries=2 out=0"), "");
}

TEST(Prune, WhatASharedTailLacks) {
  const char* full = "hq=16,sq=16384,d=128";  // 2,048 tiles of 128 rows: 15.5 rounds
  EXPECT_EQ(warpgroup("tail=132 draw=0", full), "");
  EXPECT_EQ(warpgroup("tail=66 draw=0 cluster=2", full), "");
  EXPECT_EQ(warpgroup("tail=132", full),
            "tail=132: expected draw=0, since CTAs in rounds share it, and 128 rows or more");
  EXPECT_EQ(warpgroup("tail=132 draw=0 m=64 n=64 warps=4", full), warpgroup("tail=132", full));
  EXPECT_EQ(warpgroup("tail=132 draw=0", "hq=16,sq=16384,d=128,causal"),
            "tail=132 under a causal mask: its last tiles are the shortest ones");
  EXPECT_EQ(warpgroup("tail=128 draw=0", full), "tail=128: 2,048 tiles nearly fill 16 rounds");
  EXPECT_EQ(warpgroup("tail=132 draw=0 out=0 n=80", "hq=8,sq=16384,d=256"),
            "tail=132 with steps of 80 keys: beside 256 columns of out they leave too few registers for it");
  EXPECT_EQ(warpgroup("tail=70000 draw=0", full), "tail=70,000: warpgroup has 0 to 65,536");
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

// Tiles of 64 rows share a processor by two: both must fit its shared memory, and its registers before the producers
// give theirs up.
TEST(Prune, WarpgroupsThatShareAProcessor) {
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 n=64"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 stages=1"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0"),
            "2 blocks a processor need 299,008 bytes of shared memory, it has 233,472");
  EXPECT_EQ(warpgroup("m=64 warps=4 out=0 stages=3 n=64"), "");
  EXPECT_EQ(warpgroup("m=64 warps=4 stages=3 n=64"),
            "2 blocks a processor need 266,240 bytes of shared memory, it has 233,472");
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

std::set<Candidate> warpgroup_candidates(const char* shape, const DeviceSpec& device = h200()) {
  std::set<Candidate> found;
  const Space space = enumerate(problem_of(shape), device);
  for (const Ranked& r : space.ranked) {
    if (r.candidate.skeleton == Skeleton::kWarpgroup) found.insert(r.candidate);
  }
  for (const Rejected& r : space.rejected) {
    if (r.candidate.skeleton == Skeleton::kWarpgroup) found.insert(r.candidate);
  }
  return found;
}

TEST(Space, WarpgroupTilesAreForHopperOnly) {
  for (const DeviceSpec& device : devices()) {
    EXPECT_EQ(warpgroup_candidates("hq=32,hk=8,sq=4096,d=128", device).empty(), device.arch != "sm_90a") << device.arch;
  }
}

TEST(Space, WarpgroupPacksDivisorsOfTheGroupThatDivideItsRows) {
  const auto packs = [](const char* shape) {
    std::set<int> found;
    for (const Candidate& c : warpgroup_candidates(shape)) found.insert(c.pack);
    return found;
  };
  EXPECT_EQ(packs("hq=32,hk=8,sq=4096,d=128"), (std::set<int>{1, 2, 4}));
  EXPECT_EQ(packs("hq=12,hk=2,sq=100,sk=4096,d=128"), (std::set<int>{1, 2}));
  EXPECT_EQ(packs("hq=6,hk=2,sq=100,sk=4096,d=128"), (std::set<int>{1}));  // 3 does not divide 64
}

// A section's keys and values fill at most half of L2, in whole key/value heads.
TEST(Space, WarpgroupWalksSectionsWhereKeysDoNotFitL2) {
  const auto orders = [](const char* shape) {
    std::set<int> found;
    for (const Candidate& c : warpgroup_candidates(shape)) found.insert(c.order);
    return found;
  };
  EXPECT_EQ(orders("hq=32,hk=8,sq=4096,d=128"), (std::set<int>{0}));
  // 8 MiB a key/value head: 3 of them or 12, in whole groups or parts of them
  EXPECT_EQ(orders("b=4,hq=32,hk=8,sq=16384,d=128"), (std::set<int>{0, 3 * 4, 3 * 2, 3, 12 * 4, 12 * 2, 12}));
  EXPECT_EQ(orders("b=1,hq=8,hk=8,sq=65536,d=256"), (std::set<int>{0, 1, 4}));  // 64 MiB
}

TEST(Rank, DecodePrefersSplitAndPrefillWarpgroupOrFlash) {
  for (const char* shape : {"hq=32,hk=8,sq=1,sk=8192,d=128", "b=4,hq=32,hk=8,sq=1,sk=4096,d=128",
                            "hq=8,sq=1,sk=32768,d=64", "hq=16,hk=2,sq=4,sk=8192,d=256"}) {
    const Candidate best = enumerate(problem_of(shape), h200()).ranked[0].candidate;
    EXPECT_EQ(best.skeleton, Skeleton::kSplit) << shape;
    EXPECT_GT(best.splits, 1) << shape;
  }
  for (const char* shape :
       {"hq=32,hk=8,sq=4096,d=128,causal", "hq=8,sq=2048,d=256", "b=16,hq=32,hk=8,sq=64,sk=4096,d=64"}) {
    EXPECT_EQ(enumerate(problem_of(shape), h200()).ranked[0].candidate.skeleton, Skeleton::kWarpgroup) << shape;
    const Problem without_tma = problem_of(std::string(shape) + ",notma");
    EXPECT_EQ(enumerate(without_tma, h200()).ranked[0].candidate.skeleton, Skeleton::kFlash) << shape;
    const DeviceSpec a100 = *DeviceSpec::for_arch("sm_80");
    EXPECT_EQ(enumerate(problem_of(shape), a100).ranked[0].candidate.skeleton, Skeleton::kFlash) << shape;
  }
}

// A dozen kernels are compiled at most: tiles that hand-tuned kernels use must be among the first dozen.
TEST(Rank, TheFirstDozenKernelsHoldHandTunedTiles) {
  const auto among_first_dozen = [](const char* shape, const std::string& tile) {
    std::set<std::string> kernels;
    for (const Ranked& r : enumerate(problem_of(shape), h200()).ranked) {
      kernels.insert(kernel_text(r.candidate));
      if (kernel_text(r.candidate) == tile) return kernels.size() <= 12;
    }
    return false;
  };
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=4096,d=128,causal,notma", "flash m=128 n=64 warps=4 stages=2 pack=1"));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=16384,d=128,causal,notma", "flash m=128 n=64 warps=4 stages=2 pack=1"));
  const char* wide = "warpgroup m=192 n=64 warps=12 stages=4 pack=1 draw=0 out=1 held=5";
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=4096,d=128,causal", wide));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=16384,d=128,causal", wide));
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=1,sk=8192,d=128", "split m=16 n=32 warps=4 stages=3 pack=4"));
  const std::string summing = "warpgroup m=192 n=128 warps=12 stages=4 pack=1 draw=1 out=1 sums=1 queries=2 poly=4";
  const std::string long_walk = "warpgroup m=192 n=128 warps=12 stages=3 pack=1 draw=0 out=1 sums=1 queries=2 poly=4";
  EXPECT_TRUE(among_first_dozen("hq=32,hk=8,sq=2048,d=64,causal", summing));
  EXPECT_FALSE(among_first_dozen("hq=32,hk=8,sq=2048,d=64,causal,lse", summing));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=4096,d=64", summing));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=16384,d=64", long_walk));
  EXPECT_TRUE(among_first_dozen("hq=32,sq=16384,d=64", long_walk + " tail=132"));
  const char* together = "warpgroup m=128 n=80 warps=8 stages=2 pack=1 draw=0 out=0 held=12 cluster=2";
  EXPECT_TRUE(among_first_dozen("hq=8,sq=16384,d=192", together));
}

TEST(Rank, TheModelNeverBeatsTheDevice) {
  for (const DeviceSpec& device : devices()) {
    for (const char* shape : kShapes) {
      const Problem p = problem_of(shape);
      const double memory = 1e6 * bytes(p) / device.memory_bandwidth;
      for (const Ranked& r : enumerate(p, device).ranked) {
        const bool warpgroup = r.candidate.skeleton == Skeleton::kWarpgroup;
        const double compute = 1e6 * flops(p) / (warpgroup ? device.wgmma_flops : device.tensor_flops);
        EXPECT_GE(r.predicted_us, 0.999 * std::max(memory, compute)) << shape << " " << to_text(r.candidate);
      }
    }
  }
}

TEST(Rank, SplittingPaysOnlyWhereProcessorsAreIdle) {
  const Candidate one = candidate_of("split m=16 n=32 warps=4 stages=3 pack=4");
  Candidate many = one;
  many.splits = 16;
  const Problem alone = problem_of("hq=32,hk=8,sq=1,sk=8192,d=128");
  const Problem batch = problem_of("b=128,hq=32,hk=8,sq=1,sk=8192,d=128");
  EXPECT_LT(predict_us(alone, many, h200()), predict_us(alone, one, h200()));
  EXPECT_GT(predict_us(batch, many, h200()), predict_us(batch, one, h200()));
}

TEST(Rank, HeadByHeadPaysWhereKeysDoNotFitL2) {
  const Problem p = problem_of("b=64,hq=32,sq=2048,d=128,causal");
  Candidate c = candidate_of("flash m=64 n=16 warps=4 stages=3 pack=1");
  const double across = predict_us(p, c, h200());
  c.order = 1;
  EXPECT_LE(predict_us(p, c, h200()), across * 1.01);
}

// Of 512 tokens; the tuner compiles a dozen.
TEST(Rank, TheFirstDozenKernelsHoldTheFastestOfAShortPrompt) {
  std::vector<std::string> kernels;
  for (const Ranked& ranked : enumerate(problem_of("hq=32,hk=8,sq=512,d=128,causal,lse=0"), h200()).ranked) {
    const std::string text = kernel_text(ranked.candidate);
    if (kernels.empty() || std::find(kernels.begin(), kernels.end(), text) == kernels.end()) kernels.push_back(text);
    if (kernels.size() == 12) break;
  }
  EXPECT_NE(std::find(kernels.begin(), kernels.end(), "warpgroup m=64 n=64 warps=8 stages=4 pack=1 draw=0 out=1"),
            kernels.end());
}

TEST(Rank, ATailIsSharedWhereMuchOfARoundIsIdle) {
  const auto gain = [](const std::string& shape, const std::string& tile) {
    const Problem p = problem_of(shape);
    return predict_us(p, candidate_of("warpgroup " + tile), h200()) /
           predict_us(p, candidate_of("warpgroup " + tile + " tail=132"), h200());
  };
  const std::string wide = "m=192 n=64 warps=12 stages=4 pack=1 draw=0 out=1";
  EXPECT_GT(gain("hq=16,sq=16384,d=128", wide), 1.03);     // 10.3 rounds of 0.25 ms
  EXPECT_LT(gain("b=16,hq=16,sq=1024,d=128", wide), 1.0);  // 11.6 rounds of 20 us
  EXPECT_GT(gain("hq=8,sq=16384,d=256", "m=128 n=64 warps=8 stages=2 pack=1 draw=0 out=2"), 1.01);
}

// 1,152 rows fill six tiles of 192, 1,024 leave two of the first tile's three warpgroups nothing to do.
TEST(Rank, WarpgroupsWithoutRowsCostNothingWhereNoMaskHidesKeys) {
  const auto seconds = [](const char* rows, const char* tile) {
    return predict_us(problem_of("b=16,hq=16,sk=1024,d=128,sq=" + std::string(rows)), candidate_of(tile), h200());
  };
  constexpr const char* kThree = "warpgroup m=192 n=64 warps=12 stages=4 pack=1 draw=1 out=1";
  EXPECT_LT(seconds("1024", kThree), 0.95 * seconds("1152", kThree));
  EXPECT_GT(seconds("1151", kThree), 0.99 * seconds("1152", kThree));
}

// 16k and 32 heads are 20.85 rounds of 192 rows.
TEST(Space, KernelsWhoseProductsSumShareTails) {
  const std::vector<Ranked> ranked = enumerate(problem_of("hq=32,sq=16384,d=64,lse=0"), h200()).ranked;
  EXPECT_TRUE(std::any_of(ranked.begin(), ranked.end(),
                          [](const Ranked& r) { return r.candidate.sums == 1 && r.candidate.tail == 132; }));
}

// Of a buffer as large as fits beside queries and keys: a tile of 128 rows and 64 keys has room for half of 256
// columns.
TEST(Space, OutHasTheFewestPartsThatFit) {
  const auto parts = [](int head_dim, int m, int n) {
    std::set<int> found;
    for (const Ranked& r : enumerate(problem_of("hq=8,sq=4096,d=" + std::to_string(head_dim)), h200()).ranked) {
      const Candidate& c = r.candidate;
      if (c.skeleton == Skeleton::kWarpgroup && c.tile_m == m && c.tile_n == n) found.insert(c.out_parts);
    }
    return found;
  };
  EXPECT_EQ(parts(128, 128, 64), std::set<int>({1}));
  EXPECT_EQ(parts(256, 128, 64), std::set<int>({2}));
  EXPECT_EQ(parts(192, 128, 96), std::set<int>({2}));
  EXPECT_EQ(parts(256, 128, 80), std::set<int>({0}));
}

TEST(Rank, WhatMovesLessIsKnown) {
  const Problem p = problem_of("hq=8,sq=16384,d=256");
  const auto moved = [&](const std::string& fields, const DeviceSpec& device = h200()) {
    return moved_bytes(p, candidate_of("warpgroup m=128 n=64 warps=8 stages=2 pack=1 draw=0 out=0 " + fields), device);
  };
  // 1024 tiles read a head's 16 MiB each, or two of them together; in 8 rounds all heads' keys come from memory.
  EXPECT_NEAR(moved("cluster=1 order=1"), 1024 * 16.0 * (1 << 20), 0.05 * moved("cluster=1 order=1"));
  EXPECT_NEAR(moved("cluster=2 order=1"), 512 * 16.0 * (1 << 20), 0.1 * moved("cluster=2 order=1"));
  EXPECT_GT(moved("cluster=1 order=0"), 1.1 * moved("cluster=1 order=1"));
  EXPECT_GT(moved("cluster=2 order=0"), 1.1 * moved("cluster=2 order=1"));
  EXPECT_EQ(moved("cluster=2 order=1", host()), 0);
}

TEST(DeviceSpec, TableIsWhole) {
  EXPECT_EQ(DeviceSpec::known_archs(), (std::vector<std::string>{"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a",
                                                                 "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a"}));
  for (const std::string& arch : DeviceSpec::known_archs()) {
    const DeviceSpec spec = *DeviceSpec::for_arch(arch);
    EXPECT_EQ(spec.arch, arch);
    EXPECT_EQ(arch.rfind("sm_" + std::to_string(spec.compute_capability), 0), 0u) << arch;
    EXPECT_EQ(spec.smem_per_processor - spec.smem_per_block, 1024);
    EXPECT_TRUE(spec.threads_per_processor == 1536 || spec.threads_per_processor == 2048);
    EXPECT_EQ(spec.wgmma_flops > spec.tensor_flops, arch == "sm_90a") << arch;
    EXPECT_TRUE(spec.processors > 0 && spec.l2_bytes > 0 && spec.tensor_flops > 0 && spec.memory_bandwidth > 0);
  }
  EXPECT_FALSE(DeviceSpec::for_arch("sm_75").has_value());
  EXPECT_FALSE(DeviceSpec::for_arch("").has_value());
}

TEST(DeviceSpec, IdentityHoldsSizesNotRates) {
  DeviceSpec spec = h200();
  EXPECT_EQ(spec.identity(), "cuda sm_90a sms=132 smem=232448/233472 l2=62914560");
  spec.memory_bandwidth = spec.tensor_flops = 1;
  EXPECT_EQ(spec.identity(), h200().identity());
  spec.processors = 114;
  EXPECT_NE(spec.identity(), h200().identity());
  EXPECT_NE(DeviceSpec::for_arch("sm_90")->identity(), h200().identity());
  EXPECT_EQ(host().identity(), "host x86-64-avx512 threads=16 l2=2097152 llc=67108864");
}

}  // namespace
}  // namespace gqa

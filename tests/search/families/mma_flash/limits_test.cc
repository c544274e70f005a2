// limits_test.cc: what is refused of mma_flash, and in which words. No device is asked.
#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

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

TEST(Prune, FlashTakesPagesLengthsWindowsAndPackedSequences) {
  for (const char* p :
       {"b=4,hq=32,hk=8,sq=1024,sk=8192,d=128,page=16", "b=4,hq=32,hk=8,sq=1024,sk=8192,d=128,lens,causal",
        "hq=32,hk=8,sq=1024,sk=8192,d=128,left=128,right=0", "b=4,hq=32,hk=8,sq=1024,sk=8192,d=128,packq,packk,causal",
        "b=4,hq=32,hk=8,sq=1024,sk=8192,d=128,packq,lens,page=16,causal"})
    for (const DeviceSpec& device : devices())
      EXPECT_EQ(reason(p,
                       device.kind == DeviceKind::kHost ? "flash m=64 n=64 warps=1 stages=1 pack=1"
                                                        : "flash m=64 n=64 warps=4 stages=2 pack=1",
                       device),
                "")
          << p << " on " << device.arch;
}

// A batch of prefills has decodes, too, which a tile of one head's rows would leave empty.
TEST(Prune, FlashPacksTheHeadsOfPackedSequences) {
  const char* const packed = "flash m=128 n=64 warps=4 stages=2 pack=4";
  EXPECT_EQ(reason("hq=32,hk=8,sq=4096,d=128", packed), "packing 4 heads gains nothing: one head fills 32 tiles");
  EXPECT_EQ(reason("b=4,hq=32,hk=8,sq=4096,d=128,packq,packk", packed), "");
}

TEST(Prune, FlashFields) {
  const char* p = "hq=32,hk=8,sq=4096,d=128";
  EXPECT_EQ(reason(p, "flash m=0 n=64 warps=4 stages=2 pack=1"), "tile of 0 rows: expected a multiple of 16");
  EXPECT_EQ(reason(p, "flash m=64 n=20 warps=4 stages=2 pack=1"), "step of 20 keys: expected a multiple of 16");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=0 stages=2 pack=1"), "0 warps: expected 1 to 32");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=0"), "pack of 0: expected at least 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 splits=0"), "0 splits: expected at least 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 head_swizzle=2"), "");  // two head groups together
  Candidate backwards = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1");
  std::get<MmaFlash>(backwards.of).head_swizzle = -1;
  EXPECT_EQ(reject_reason(problem_of(p), backwards, h200()), "head_swizzle=-1: expected at least 0");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=1 stages=2 pack=1"), "64 rows over 1 warps: flash gives a warp 16 or 32");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=4 pack=1"), "4 stages: flash has 1 to 3");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=2 pack=1 splits=2"), "2 splits: flash has 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=4 stages=1 pack=1", host()), "4 warps: the host has 1");
  EXPECT_EQ(reason(p, "flash m=64 n=64 warps=1 stages=2 pack=1", host()), "2 stages: the host has 1");
  EXPECT_EQ(reason("b=65536,hq=256,sq=16384,d=32", "flash m=16 n=32 warps=1 stages=2 pack=1"),
            "17,179,869,184 blocks: a grid has at most 2,147,483,647");
}

}  // namespace
}  // namespace gqa

// limits_test.cc: what is refused of split_kv, and in which words. No device is asked.
#include <gtest/gtest.h>

#include "tests/search/families/space_support.h"

namespace gqa {
namespace {

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
  EXPECT_EQ(reason(decode, "split m=16 n=32 warps=4 stages=3 pack=4 head_swizzle=1"), "head_swizzle=1: split has none");
  EXPECT_EQ(reason(decode, "split m=32 n=32 warps=4 stages=3 pack=4"), "tile of 32 rows for 4 query rows");
}

TEST(Prune, SplitFields) {
  const char* p = "hq=32,hk=8,sq=4096,d=128";
  EXPECT_EQ(reason(p, "split m=128 n=64 warps=4 stages=2 pack=1"), "tile of 128 rows: split has at most 64");
  EXPECT_EQ(reason(p, "split m=64 n=64 warps=4 stages=1 pack=1"), "1 stages: split has 2 to 6");
  EXPECT_EQ(reason(p, "split m=64 n=64 warps=16 stages=2 pack=1"), "16 warps: split has at most 8");
}

}  // namespace
}  // namespace gqa

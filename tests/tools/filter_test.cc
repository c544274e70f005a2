// filter_test.cc: which rows a listing shows.
#include "tools/cache/filter.h"

#include <gtest/gtest.h>

#include "tools/cache/errors.h"

namespace gqa::tools {
namespace {

constexpr std::int64_t kNow = 1000000000, kHourAgo = kNow - 3600, kWeekAgo = kNow - 7 * 86400;
constexpr const char* kDecode = "b=64,hq=32,hk=8,sq=1,sk=4096,d=128,dtype=bf16,page=16,lens";

cache::WinnerRow winner(const std::string& shape, const std::string& device, std::int64_t created) {
  cache::WinnerRow row;
  row.key.signature = shape;
  row.key.device = device;
  row.created = created;
  return row;
}

TEST(Filter, AShapeHasItsItemsInAnyOrderAndSpelling) {
  for (const char* items : {"hq=32", "d=128,hq=32", " sq = 1 ", "lens", "lens=1", "dtype=bfloat16", "page=16,hk=8",
                            "dv=128", "causal=0", "softcap=0", "align=16"})
    EXPECT_TRUE(shape_has(kDecode, items)) << items;
  for (const char* items :
       {"hq=16", "hq=32,d=64", "lens=0", "dtype=f16", "page=32", "softcap", "lse", "left=3", "dv=64", "causal"})
    EXPECT_FALSE(shape_has(kDecode, items)) << items;
}

TEST(Filter, ASizeIsThatOfItsBucket) {
  EXPECT_TRUE(shape_has(kDecode, "sk=4000"));
  EXPECT_TRUE(shape_has(kDecode, "b=50"));
  EXPECT_FALSE(shape_has(kDecode, "sk=4097"));
  EXPECT_FALSE(shape_has(kDecode, "b=48"));
}

TEST(Filter, WhatIsNoShapeHasNothing) {
  EXPECT_FALSE(shape_has("graph 0123 attention", "hq=32"));
  EXPECT_FALSE(shape_has("", "hq=32"));
}

TEST(Filter, ShapeDeviceAndAgeMustAllPass) {
  const cache::WinnerRow row = winner(kDecode, "cuda sm_90a sms=132", kHourAgo);
  const auto passes = [&row](const FilterOptions& options) { return Filter(options, kNow).passes(row); };
  EXPECT_TRUE(passes({}));
  EXPECT_TRUE(passes({"sk=4k", "sm_90a", "2h", "30m"}));
  EXPECT_FALSE(passes({"sk=8k", "sm_90a", "2h", "30m"}));
  EXPECT_FALSE(passes({"sk=4k", "sm_100a", "2h", "30m"}));
  EXPECT_FALSE(passes({"sk=4k", "sm_90a", "30m", ""}));
  EXPECT_FALSE(passes({"sk=4k", "sm_90a", "", "2h"}));
  EXPECT_FALSE(Filter({"", "", "6", ""}, kNow).passes(winner(kDecode, "host", kWeekAgo)));
  EXPECT_TRUE(Filter({"", "", "7", "7d"}, kNow).passes(winner(kDecode, "host", kWeekAgo)));
}

TEST(Filter, KernelsToo) {
  cache::KernelRow row;
  row.problem = kDecode;
  row.arch = "sm_90a";
  row.created = kHourAgo;
  EXPECT_TRUE(Filter({"hq=32", "sm_90a", "1", ""}, kNow).passes(row));
  EXPECT_FALSE(Filter({"hq=31", "", "", ""}, kNow).passes(row));
  EXPECT_FALSE(Filter({"", "host", "", ""}, kNow).passes(row));
}

TEST(Filter, SaysWhatCannotBeRead) {
  const auto refusal = [](const FilterOptions& options) -> std::string {
    try {
      Filter filter(options, kNow);
      return "";
    } catch (const Usage& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal({"heads=8", "", "", ""}).find("'heads'"), std::string::npos);
  EXPECT_NE(refusal({"hq=many", "", "", ""}).find("'many'"), std::string::npos);
  EXPECT_NE(refusal({"", "", "soon", ""}).find("--newer-than 'soon'"), std::string::npos);
  EXPECT_NE(refusal({"", "", "", "-1d"}).find("--older-than '-1d'"), std::string::npos);
  EXPECT_NE(refusal({"", "", "d", ""}).find("as in 30m"), std::string::npos);
}

}  // namespace
}  // namespace gqa::tools

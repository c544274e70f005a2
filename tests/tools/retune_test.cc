// retune_test.cc: which of two races of a shape counts, and what cannot be raced again.
#include "tools/cache/retune.h"

#include <gtest/gtest.h>

#include "runtime/workload/keys.h"
#include "tools/cache/errors.h"

namespace gqa::tools {
namespace {

cache::WinnerRow race(const std::string& candidate, double median_us, bool provisional = false) {
  cache::WinnerRow row;
  row.candidate = candidate;
  row.median_us = median_us;
  row.provisional = provisional;
  row.evidence = R"({"attempts": [{"candidate": ")" + candidate + R"(", "outcome": "winner", "median_us": 9},
                                  {"candidate": "beaten", "outcome": "slower", "median_us": 11},
                                  {"candidate": "wrong", "outcome": "verify failed"}]})";
  return row;
}

TEST(Retune, TheNewRaceCounts) {
  EXPECT_EQ(counts_for_less(race("a", 10), race("a", 12)), "") << "the same candidate, measured again";
  EXPECT_EQ(counts_for_less(race("beaten", 10), race("a", 12)), "") << "it was beaten side by side";
  EXPECT_EQ(counts_for_less(race("never raced", 10), race("a", 9)), "") << "faster in any case";
  EXPECT_EQ(counts_for_less(race("never raced", 10, true), race("a", 12)), "") << "a guess gives way";
}

TEST(Retune, TheFormerStaysWhereTheRaceSaysLess) {
  EXPECT_NE(counts_for_less(race("a", 10), race("a", 9, true)).find("disturbed"), std::string::npos);
  EXPECT_NE(counts_for_less(race("never raced", 10), race("a", 12)).find("never raced"), std::string::npos);
  EXPECT_NE(counts_for_less(race("wrong", 10), race("a", 12)), "") << "it did not run in this race";
}

TEST(Retune, RefusesWhatCannotBeRacedHere) {
  std::unique_ptr<Device> device;
  ASSERT_TRUE(open_host_device(1, &device).ok());
  const auto store = cache::Store::open({"", cache::Mode::kOff});
  const auto refusal = [&](const cache::WinnerRow& row) -> std::string {
    try {
      (void)retune(*device, *store, row, {}, {});
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  cache::WinnerRow row = race("a", 10);
  row.key.signature = "graph 0123 attention";
  EXPECT_NE(refusal(row).find("a graph's"), std::string::npos);
  row.key = winner_key(*device, "b=1,hq=2,hk=2,sq=16,sk=16,d=32,dtype=bf16");
  row.key.device = "cuda sm_90a sms=132";
  EXPECT_NE(refusal(row).find("'cuda sm_90a sms=132'"), std::string::npos);
  row.key = winner_key(*device, "b=1,hq=2,hk=2,sq=16,sk=16,d=32,dtype=bf16");
  row.key.search = "search 0";
  EXPECT_NE(refusal(row).find("search 0"), std::string::npos);
  row.key.signature = "heads=3";
  EXPECT_NE(refusal(row).find("another version"), std::string::npos);
}

}  // namespace
}  // namespace gqa::tools

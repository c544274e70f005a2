// checked_test.cc: a checked handle names the length or the table entry that is out of range, and looks no further than
// a length.
#include "runtime/checked.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gqa {
namespace {

// Three sequences of at most 48 keys in pages of 16, of 10 pages; rows of the table are four entries apart.
struct Lists {
  Problem problem;
  std::vector<std::int32_t> lengths = {48, 0, 17}, table = {3, 9, 0, 77, 77, -1, 77, 77, 5, 5, 77};

  Lists() { EXPECT_TRUE(parse("b=3,hq=2,hk=2,sq=1,sk=48,d=64,page=16,lens", &problem).ok()); }
  std::string said() const {
    const Status status = check_lists(problem, lengths.data(), table.data(), 4, 10);
    EXPECT_EQ(status.code(), status.ok() ? Code::kOk : Code::kOption);
    return status.message();
  }
};

TEST(CheckLists, EntriesPastALengthAreNotLookedAt) { EXPECT_EQ(Lists().said(), ""); }

TEST(CheckLists, LengthsAreWithinTheCache) {
  Lists lists;
  lists.lengths = {48, -1, 0};
  EXPECT_EQ(lists.said().find("cache_seqlens[1] is -1, expected 0 to 48"), 0U) << lists.said();
  lists.lengths = {48, 0, 49};
  EXPECT_EQ(lists.said().find("cache_seqlens[2] is 49, expected 0 to 48"), 0U) << lists.said();
}

TEST(CheckLists, ReachedEntriesArePages) {
  Lists lists;
  lists.table[9] = 10;
  EXPECT_EQ(lists.said().find("page_table[2][1] is 10, expected 0 to 9: sequence 2 has 17 keys in pages of 16"), 0U)
      << lists.said();
  lists.lengths[2] = 16;
  EXPECT_EQ(lists.said(), "");
  lists.table[0] = -1;
  EXPECT_EQ(lists.said().find("page_table[0][0] is -1"), 0U) << lists.said();
}

TEST(CheckLists, WithoutLengthsAllKeysAreReached) {
  Lists lists;
  EXPECT_TRUE(parse("b=2,hq=2,hk=2,sq=1,sk=48,d=64,page=16", &lists.problem).ok());
  lists.table = {0, 1, 2, 77, 3, 4, 10};
  const Status status = check_lists(lists.problem, nullptr, lists.table.data(), 4, 10);
  EXPECT_EQ(status.message().find("page_table[1][2] is 10"), 0U) << status.message();
}

TEST(CheckLists, DenseKeysHaveLengthsOnly) {
  Lists lists;
  EXPECT_TRUE(parse("b=3,hq=2,hk=2,sq=1,sk=20,d=64,lens", &lists.problem).ok());
  const Status status = check_lists(lists.problem, lists.lengths.data(), nullptr, 0, 0);
  EXPECT_EQ(status.message().find("cache_seqlens[0] is 48, expected 0 to 20"), 0U) << status.message();
}

}  // namespace
}  // namespace gqa

// checked_test.cc: a checked handle names the length or the table entry that is out of range, and looks no further than
// a length; of calls that append what they are given, too.
#include "runtime/call/checked.h"

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
  static Status check(const Problem& problem, const std::int32_t* lengths, const std::int32_t* table) {
    Call call;
    call.problem = problem;
    call.place(Role::kKvLengths, lengths);
    call.place(Role::kPageTable, table);
    call.strides(Role::kPageTable).batch = 4;
    call.pages = 10;
    return check_lists(call);
  }
  std::string said() const {
    const Status status = check(problem, lengths.data(), table.data());
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

// The three sequences are given two new keys each: the first has no room for them.
struct AppendLists : Lists {
  std::vector<std::int32_t> batch_idx = {6, 0, 3}, leftpad = {4, 0, 17}, rotary_starts = {0, 18, 3};
  std::vector<std::int32_t> starts = {0, 2, 2, 5};
  Append append;

  AppendLists() {
    lengths = {46, 0, 30};
    table = {3, 9, 0, 77, 4, -1, 77, 77, 5, 5, 77};
    call.place(Role::kNewK, this);
    append.page = 16;
    append.pages = 10;
    append.count = 2;
    append.rows = 5;
    append.cache_batch = 7;
    append.rotary_len = 20;
    call.place(Role::kOut, this);
  }
  std::string said() {
    call.problem = problem;
    call.place(Role::kKvLengths, lengths.data());
    call.place(Role::kPageTable, table.data());
    call.strides(Role::kPageTable).batch = 4;
    call.pages = 10;
    call.append = append;
    return check_lists(call).message();
  }
  Call call;
};

TEST(CheckLists, NewKeysHaveRoomAndPages) {
  AppendLists lists;
  EXPECT_EQ(lists.said(), "");
  lists.table[4] = 77;  // of a sequence that has no key yet
  EXPECT_EQ(lists.said().find("page_table[1][0] is 77"), 0U) << lists.said();
  lists.lengths[0] = 47;
  EXPECT_EQ(lists.said(), "sequence 0 is given 2 new keys, expected 0 to 1: it has 47 in a cache of 48");
}

TEST(CheckLists, PackedNewKeysAscendWithinTheirTensor) {
  AppendLists lists;
  lists.call.place(Role::kNewStarts, lists.starts.data());
  lists.table[10] = 5;  // three new keys of the last one begin a page
  EXPECT_EQ(lists.said(), "");
  lists.starts[3] = 6;
  EXPECT_EQ(lists.said().find("cu_seqlens_k_new[3] is 6, expected 2 to 5"), 0U) << lists.said();
}

TEST(CheckLists, RowsPaddingAndRotationsExist) {
  AppendLists lists;
  lists.call.place(Role::kBatchIdx, lists.batch_idx.data());
  lists.call.place(Role::kLeftpad, lists.leftpad.data());
  lists.call.place(Role::kRotaryStarts, lists.rotary_starts.data());
  lists.append.rotary_dim = 32;
  lists.table.resize(28, 77);
  for (const int row : {6, 0, 3})
    for (int column = 0; column < 3; ++column) lists.table[static_cast<std::size_t>(4 * row + column)] = row;
  EXPECT_EQ(lists.said(), "");
  lists.rotary_starts[1] = 19;
  EXPECT_EQ(
      lists.said(),
      "rotary_seqlens[1] is 19, and its tokens are rotated by position 19 to 20, expected 0 to 19: rotary_cos has "
      "20 positions");
  lists.leftpad[1] = 1;
  EXPECT_EQ(lists.said(), "cache_leftpad[1] is 1, expected 0 to 0: the slots that it has in use");
  lists.batch_idx[0] = 7;
  EXPECT_EQ(lists.said(), "cache_batch_idx[0] is 7, expected 0 to 6: the rows that the cache has");
}

TEST(CheckLists, RotationsOfKeysAndQueriesHaveARowEach) {
  AppendLists lists;
  lists.lengths = {18, 0, 3};
  lists.append.rotary_dim = 32;
  EXPECT_EQ(lists.said(), "");
  lists.append.rotary_len = 19;
  EXPECT_EQ(
      lists.said().find("cache_seqlens[0] is 18, and its tokens are rotated by position 18 to 19, expected 0 to 18"),
      0U)
      << lists.said();
  lists.lengths[0] = 17;
  EXPECT_EQ(lists.said(), "");
  lists.problem.q_len = 4;  // of which those past the new keys are rotated, too
  EXPECT_EQ(lists.said(), "");
  lists.append.advances = true;
  EXPECT_NE(lists.said().find("by position 17 to 20"), std::string::npos) << lists.said();
  lists.call.place(Role::kOut, nullptr);  // there is no query
  EXPECT_EQ(lists.said(), "");
}

TEST(CheckLists, NoSlotIsWrittenTwice) {
  AppendLists lists;
  lists.lengths = {40, 0, 30};
  EXPECT_EQ(lists.said(), "");
  lists.batch_idx = {3, 0, 3};
  lists.call.place(Role::kBatchIdx, lists.batch_idx.data());
  lists.table.resize(16, 7);
  EXPECT_EQ(lists.said(), "");  // of one row, but other slots
  lists.lengths[0] = 31;
  EXPECT_EQ(lists.said().find("sequences 0 and 2 are both given a new key in one slot"), 0U) << lists.said();
  lists.call.leave_out(Role::kNewK);
  EXPECT_EQ(lists.said(), "");
}

TEST(CheckLists, PagesOfPaddingAreNotLookedAt) {
  AppendLists lists;
  lists.leftpad = {32, 0, 0};
  lists.call.place(Role::kLeftpad, lists.leftpad.data());
  lists.lengths[0] = 40;
  EXPECT_EQ(lists.said(), "");
  lists.table[0] = lists.table[1] = 77;
  EXPECT_EQ(lists.said(), "");
  lists.leftpad[0] = 31;
  EXPECT_EQ(lists.said().find("page_table[0][1] is 77"), 0U) << lists.said();
}

TEST(CheckLists, WithoutLengthsAllKeysAreReached) {
  Lists lists;
  EXPECT_TRUE(parse("b=2,hq=2,hk=2,sq=1,sk=48,d=64,page=16", &lists.problem).ok());
  lists.table = {0, 1, 2, 77, 3, 4, 10};
  const Status status = Lists::check(lists.problem, nullptr, lists.table.data());
  EXPECT_EQ(status.message().find("page_table[1][2] is 10"), 0U) << status.message();
}

TEST(CheckLists, DenseKeysHaveLengthsOnly) {
  Lists lists;
  EXPECT_TRUE(parse("b=3,hq=2,hk=2,sq=1,sk=20,d=64,lens", &lists.problem).ok());
  const Status status = Lists::check(lists.problem, lists.lengths.data(), nullptr);
  EXPECT_EQ(status.message().find("cache_seqlens[0] is 48, expected 0 to 20"), 0U) << status.message();
}

// Three sequences, of at most 4 queries and 20 keys, in tensors of 9 and of 40 rows.
struct PackedLists {
  std::vector<std::int32_t> q_starts = {0, 4, 4, 8}, k_starts = {0, 20, 20, 40}, q_lengths, kv_lengths;
  mutable std::string odd;

  std::string said() const {
    Call call;
    EXPECT_TRUE(parse("b=3,hq=2,hk=2,sq=4,sk=20,d=64,packq,packk", &call.problem).ok());
    call.place(Role::kQStarts, q_starts.data());
    call.place(Role::kKStarts, k_starts.data());
    call.place(Role::kQLengths, q_lengths.empty() ? nullptr : q_lengths.data());
    call.place(Role::kKvLengths, kv_lengths.empty() ? nullptr : kv_lengths.data());
    call.q_rows = 9;
    call.k_rows = 40;
    const Status status = check_lists(call, &odd);
    EXPECT_EQ(status.code(), status.ok() ? Code::kOk : Code::kOption);
    return status.message();
  }
};

TEST(CheckLists, PackedSequencesBeginWithTheTensor) {
  PackedLists lists;
  lists.k_starts[0] = 2;
  EXPECT_EQ(lists.said().find("cu_seqlens_k[0] is 2, expected 0"), 0U) << lists.said();
  lists.k_starts[0] = 0;
  lists.q_starts = {4, 4, 4, 4};  // lengths
  EXPECT_EQ(lists.said().find("cu_seqlens_q[0] is 4, expected 0"), 0U) << lists.said();
}

TEST(CheckLists, RowsOfNoSequenceAreOdd) {
  PackedLists lists;
  EXPECT_EQ(lists.said(), "");
  EXPECT_EQ(lists.odd, "cu_seqlens_q ends at 8, and q has 9 rows: those from there on belong to no sequence");
  lists.q_starts[3] = 9;
  lists.q_lengths = {4, 0, 4};
  lists.k_starts[3] = 39;
  EXPECT_EQ(lists.said(), "");
  EXPECT_EQ(lists.odd, "cu_seqlens_k ends at 39, and k has 40 rows: those from there on belong to no sequence");
  lists.k_starts[3] = 40;
  EXPECT_EQ(lists.said(), "");
  EXPECT_EQ(lists.odd, "");
}

TEST(CheckLists, PackedSequencesAscendWithinTheirTensors) {
  PackedLists lists;
  EXPECT_EQ(lists.said(), "");
  lists.q_starts[0] = -1;
  EXPECT_EQ(lists.said().find("cu_seqlens_q[0] is -1, expected 0"), 0U) << lists.said();
  lists.q_starts = {0, 4, 3, 8};
  EXPECT_EQ(lists.said(), "cu_seqlens_q[2] is 3, expected 4 to 9: sequence 1 begins there, and q has 9 rows");
  lists.q_starts = {0, 4, 4, 8};
  lists.k_starts[3] = 41;
  EXPECT_EQ(lists.said(), "cu_seqlens_k[3] is 41, expected 20 to 40: sequence 2 begins there, and k has 40 rows");
}

TEST(CheckLists, PackedSequencesAreNoLongerThanTheLongest) {
  PackedLists lists;
  lists.q_starts = {0, 4, 9, 9};
  EXPECT_EQ(lists.said(), "sequence 1 of cu_seqlens_q has 5 queries, expected at most 4, which is max_seqlen_q");
  lists.q_starts = {0, 4, 4, 8};
  lists.k_starts[1] = lists.k_starts[2] = 21;
  EXPECT_EQ(lists.said(), "sequence 0 of cu_seqlens_k has 21 keys, expected at most 20, which is max_seqlen_k");
}

TEST(CheckLists, UsedLengthsAreWithinTheirSequences) {
  PackedLists lists;
  lists.q_lengths = {4, 0, 3};
  lists.kv_lengths = {20, 0, 18};
  EXPECT_EQ(lists.said(), "");
  lists.k_starts[1] = lists.k_starts[2] = 22;  // more rows than are used
  EXPECT_EQ(lists.said(), "");
  lists.q_lengths[1] = 1;
  EXPECT_EQ(lists.said(), "seqused_q[1] is 1, expected 0 to 0: the queries there are");
  lists.q_lengths[1] = 0;
  lists.kv_lengths = {21, 0, 18};
  EXPECT_EQ(lists.said(), "cache_seqlens[0] is 21, expected 0 to 20: the keys there are");
  lists.kv_lengths = {-1, 0, 18};
  EXPECT_EQ(lists.said(), "cache_seqlens[0] is -1, expected 0 to 20: the keys there are");
}

TEST(CheckLists, PackedQueriesBesideAPageTable) {
  Call call;
  EXPECT_TRUE(parse("b=2,hq=2,hk=2,sq=4,sk=32,d=64,page=16,lens,packq", &call.problem).ok());
  const std::vector<std::int32_t> starts = {0, 3, 4}, lengths = {20, 1}, table = {0, 1, 5, 9};
  call.place(Role::kQStarts, starts.data());
  call.q_rows = 4;
  call.place(Role::kKvLengths, lengths.data());
  call.place(Role::kPageTable, table.data());
  call.strides(Role::kPageTable).batch = 2;
  call.pages = 6;
  EXPECT_EQ(check_lists(call).message(), "");
  call.pages = 5;
  EXPECT_EQ(check_lists(call).message().find("page_table[1][0] is 5, expected 0 to 4: sequence 1 has 1 keys"), 0U);
  call.q_rows = 3;
  EXPECT_EQ(check_lists(call).message().find("cu_seqlens_q[2] is 4, expected 3 to 3"), 0U);
}

}  // namespace
}  // namespace gqa

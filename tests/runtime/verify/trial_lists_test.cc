// trial_lists_test.cc: the lists that trials read are in range where they are read and out of it elsewhere, pages are
// out of order, and what is said to be unused is.
#include "runtime/verify/trial_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "runtime/call/checked.h"

namespace gqa {
namespace {

Problem listed(const std::string& text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

const char* const kListed[] = {
    "b=9,hq=2,hk=2,sq=3,sk=1000,d=64,lens,page=16", "b=2,hq=2,hk=2,sq=1,sk=5,d=64,lens,page=64",
    "b=4,hq=2,hk=2,sq=1,sk=100,d=64,page=3",        "b=12,hq=2,hk=2,sq=3,sk=70,d=64,lens",
    "b=1,hq=2,hk=2,sq=1,sk=1,d=64,lens,page=1",     "b=3,hq=2,hk=2,sq=1,sk=70,d=64"};

// Keys in use, one by one, as whoever follows the lists finds them.
std::set<std::int64_t> used_by(const Problem& p, const TrialLists& lists) {
  std::set<std::int64_t> used;
  for (int b = 0; b < p.batch; ++b) {
    const int length = p.lengths_differ() ? lists.lengths[static_cast<std::size_t>(b)] : p.kv_len;
    for (int j = 0; j < length; ++j)
      used.insert(p.paged()
                      ? std::int64_t{lists.table[static_cast<std::size_t>(b * table_width(p) + j / p.page)]} * p.page +
                            j % p.page
                      : std::int64_t{b} * p.kv_len + j);
  }
  return used;
}

TEST(TrialLists, AreInRangeWhereTheyAreRead) {
  for (const char* text : kListed) {
    const Problem p = listed(text);
    for (const TrialLists& lists : {verification_lists(p, 1), timing_lists(p, 1)}) {
      EXPECT_EQ(lists.lengths.size(), p.lengths_differ() ? static_cast<std::size_t>(p.batch) : 0U);
      EXPECT_EQ(lists.table.size(), static_cast<std::size_t>(p.batch * table_width(p)));
      Call call;
      call.problem = p;
      call.place(Role::kKvLengths, p.lengths_differ() ? lists.lengths.data() : nullptr);
      call.place(Role::kPageTable, p.paged() ? lists.table.data() : nullptr);
      call.strides(Role::kPageTable).batch = table_width(p);
      call.pages = trial_pages(p);
      const Status status = check_lists(call);
      EXPECT_TRUE(status.ok()) << text << ": " << status.message();
    }
  }
}

TEST(TrialLists, SayWhatNoSequenceUses) {
  for (const char* text : kListed) {
    const Problem p = listed(text);
    const TrialLists lists = verification_lists(p, 1);
    const std::set<std::int64_t> used = used_by(p, lists);
    std::int64_t unused = 0, end = -1;
    for (const KeyRun& run : unused_keys(p, lists)) {
      EXPECT_GT(run.first, end) << text << ": neighbours are one run";
      EXPECT_GT(run.count, 0);
      end = run.first + run.count;
      unused += run.count;
      for (std::int64_t key = run.first; key < end; ++key) EXPECT_EQ(used.count(key), 0U) << text << ", key " << key;
    }
    const std::int64_t all = p.paged() ? std::int64_t{trial_pages(p)} * p.page : std::int64_t{p.batch} * p.kv_len;
    EXPECT_LE(end, all);
    EXPECT_EQ(unused + static_cast<std::int64_t>(used.size()), all) << text;
  }
}

TEST(TrialLists, VerificationHasAnEmptySequenceALongestOneAndSharedPages) {
  const Problem p = listed(kListed[0]);
  const TrialLists lists = verification_lists(p, 1);
  EXPECT_EQ(std::count(lists.lengths.begin(), lists.lengths.end(), 0) > 0, true);
  EXPECT_EQ(*std::max_element(lists.lengths.begin(), lists.lengths.end()), 1000);
  std::vector<std::int32_t> pages;
  for (const std::int32_t page : lists.table)
    if (page != kEntryPastLength) pages.push_back(page);
  EXPECT_FALSE(std::is_sorted(pages.begin(), pages.end()));
  EXPECT_LT(std::set<std::int32_t>(pages.begin(), pages.end()).size(), pages.size()) << "none is shared";
  EXPECT_NE(verification_lists(p, 1).table, verification_lists(p, 2).table);
  EXPECT_EQ(verification_lists(p, 1).table, lists.table);
}

TEST(TrialLists, ACallThatAppendsBringsEachSequencesLastKey) {
  for (const char* text : {kListed[0], kListed[1], kListed[3], kListed[4]}) {
    const Problem p = listed(text);
    const TrialLists lists = verification_lists(p, 1);
    const std::set<std::int64_t> used = used_by(p, lists);
    const AppendLists append = append_lists(p, lists);
    for (int b = 0; b < p.batch; ++b) {
      const auto at = static_cast<std::size_t>(b);
      const std::int32_t length = lists.lengths[at];
      EXPECT_EQ(append.cached[at], std::max(0, length - 1)) << text;
      EXPECT_EQ(append.rows[at] < 0, length == 0);
      EXPECT_TRUE(length == 0 || used.count(append.rows[at]) == 1) << text;
      EXPECT_FALSE(length == 0 && append.own[at]) << text;
      if (!p.paged()) {
        EXPECT_EQ(append.own[at], length > 0);
        continue;
      }
      const std::int64_t first = append.table[static_cast<std::size_t>(b * table_width(p))];
      ASSERT_LT(first, trial_pages(p)) << "a sequence without keys has a page, too";
      EXPECT_TRUE(length > 0 || used.count(first * p.page) == 0) << text << ": it is somebody's";
      EXPECT_TRUE(!append.own[at] || std::count(append.rows.begin(), append.rows.end(), append.rows[at]) == 1) << text;
    }
  }
}

TEST(TrialLists, ASingleSequenceIsShorterThanTheMost) {
  const Problem p = listed("b=1,hq=2,hk=2,sq=1,sk=90,d=64,lens");
  EXPECT_EQ(verification_lists(p, 1).lengths, std::vector<std::int32_t>{60});
  EXPECT_EQ(timing_lists(p, 1).lengths, std::vector<std::int32_t>{90});
}

TEST(TrialLists, TimingHasLengthsAsServingHasThemAndSharesNoPage) {
  const Problem p = listed("b=64,hq=2,hk=2,sq=1,sk=4096,d=64,lens,page=16");
  const TrialLists lists = timing_lists(p, 1);
  const double mean = std::accumulate(lists.lengths.begin(), lists.lengths.end(), 0.0) / 64;
  EXPECT_GT(mean, 1200);
  EXPECT_LT(mean, 2600);
  EXPECT_EQ(*std::max_element(lists.lengths.begin(), lists.lengths.end()), 4096);
  std::vector<std::int32_t> pages;
  for (const std::int32_t page : lists.table)
    if (page != kEntryPastLength) pages.push_back(page);
  EXPECT_EQ(std::set<std::int32_t>(pages.begin(), pages.end()).size(), pages.size());
}

TEST(TrialLists, TimedQueriesHaveTheirKeys) {
  const Problem chunks = listed("b=64,hq=2,hk=2,sq=512,sk=1024,d=64,causal,lens,packq,page=16");
  TrialLists lists = timing_lists(chunks, 1);
  std::int32_t longest = 0;
  for (std::int32_t b = 0; b < 64; ++b) {
    EXPECT_LE(queries_of(chunks, lists, b), lists.lengths[static_cast<std::size_t>(b)]) << b;
    longest = std::max(longest, queries_of(chunks, lists, b));
  }
  EXPECT_EQ(longest, 512);
  const Problem prompts = listed("b=64,hq=2,hk=2,sq=1024,sk=1024,d=64,causal,packq,packk");
  lists = timing_lists(prompts, 1);
  EXPECT_EQ(lists.q_starts, lists.k_starts);
  EXPECT_GT(lists.q_starts.back(), 64 * 300);
  lists = timing_lists(listed("b=4,hq=2,hk=2,sq=8,sk=64,d=64,causal,packq"), 1);
  EXPECT_EQ(lists.q_starts.size(), 5u);
}

// 128 sequences of 131,072 keys would be 64 GiB; sequences share pages rather.
TEST(TrialLists, PagesStayWithinAFewGigabytes) {
  const Problem p = listed("b=128,hq=8,hk=8,sq=1,sk=131072,d=128,lens,page=16");
  const std::int64_t bytes = std::int64_t{trial_pages(p)} * p.page * p.kv_heads * (p.head_dim + p.head_dim_v) * 2;
  EXPECT_LT(bytes, std::int64_t{5} << 30);
  EXPECT_GT(bytes, std::int64_t{3} << 30);
}

}  // namespace
}  // namespace gqa

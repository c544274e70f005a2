// The rows that are compared and the judgement of what was measured.

#include "runtime/verify/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/search/from_text.h"

namespace gqa {
namespace {

TEST(RowsToCheck, AllOfASmallProblem) {
  const std::vector<std::int64_t> rows = rows_to_check(problem_of("b=2,hq=3,hk=3,sq=5,d=64"), {}, 30);
  ASSERT_EQ(30U, rows.size());
  for (std::int64_t row = 0; row < 30; ++row) EXPECT_EQ(row, rows[static_cast<std::size_t>(row)]);
}

TEST(RowsToCheck, ASampleHoldsEndsAndTileEdgesAndReachesEveryHead) {
  const Problem p = problem_of("b=3,hq=8,hk=2,sq=300,d=64");
  const std::vector<std::int64_t> rows = rows_to_check(p, {}, 500);
  EXPECT_LE(rows.size(), 510U);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(rows.end(), std::adjacent_find(rows.begin(), rows.end()));
  const std::set<std::int64_t> found(rows.begin(), rows.end());
  const std::int64_t last_head = std::int64_t{3 * 8 - 1} * 300;
  for (const std::int64_t position : {0, 63, 64, 127, 128, 191, 192, 255, 256})
    for (const std::int64_t row : {position, last_head + position}) EXPECT_EQ(1U, found.count(row)) << row;
  EXPECT_EQ(3 * 8 * 300 - 1, rows.back());
  std::set<std::int64_t> heads, places_in_a_tile;
  for (const std::int64_t row : rows) {
    heads.insert(row / 300);
    places_in_a_tile.insert(row % 300 % 64);
  }
  EXPECT_EQ(24U, heads.size());
  EXPECT_GT(places_in_a_tile.size(), 48U);
  EXPECT_EQ(rows, rows_to_check(p, {}, 500));
}

TEST(RowsToCheck, RowsOfManyBatchesStayInRange) {
  const Problem p = problem_of("b=70000,hq=2,hk=1,sq=1,d=64");
  const std::vector<std::int64_t> rows = rows_to_check(p, {}, 256);
  EXPECT_GE(rows.front(), 0);
  EXPECT_EQ(139999, rows.back());
  EXPECT_GT(rows.size(), 200U);
}

// Rows that no packed sequence has are compared with nothing; each sequence's last row is.
TEST(RowsToCheck, OfPackedSequencesThoseThatTheyHave) {
  for (const std::int64_t most : {20, 1000000}) {
    const Problem p = problem_of("b=4,hq=2,hk=1,sq=300,d=64,packq");
    const TrialLists lists = {{0, 300, 300, 301, 401}, {}, {}, {}};
    const std::vector<std::int64_t> rows = rows_to_check(p, lists, most);
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    for (const std::int64_t row : rows)
      EXPECT_LT(row % 300, queries_of(p, lists, static_cast<std::int32_t>(row / 600))) << row;
    for (const std::int64_t last : {std::int64_t{299}, std::int64_t{2 * 600}, std::int64_t{3 * 600 + 99}})
      EXPECT_EQ(1, std::count(rows.begin(), rows.end(), last)) << last;
    EXPECT_EQ(most > 1000, rows.size() == 2U * 401);
  }
}

// What an honest run of a bf16 problem measures.
Comparison honest() {
  Comparison c;
  c.error = 0.004;
  c.naive_error = 0.005;
  c.largest = 1;
  return c;
}

Verdict judged(const Comparison& comparison) {
  const Problem p = problem_of("b=2,hq=4,hk=4,sq=10,d=64,lse=1");
  return judge(measured(p, rows_to_check(p, {}, 80), comparison));
}

TEST(Judge, PassesUpToTwiceTheNaiveError) {
  Comparison c = honest();
  EXPECT_TRUE(judged(c).passed);
  EXPECT_EQ("", judged(c).reason);
  EXPECT_DOUBLE_EQ(0.01, judged(c).bound);
  c.error = 0.01;
  EXPECT_TRUE(judged(c).passed);
  c.error = 0.0101;
  EXPECT_FALSE(judged(c).passed);
}

TEST(Judge, AllowsTheOutputsOwnRoundingWhereTheNaiveErrorIsNone) {
  Comparison c = honest();
  c.naive_error = 0;
  c.error = 1.0 / 512;
  EXPECT_TRUE(judged(c).passed);
  c.error = 1.0 / 128;
  EXPECT_FALSE(judged(c).passed);
}

TEST(Judge, NamesTheWorstElement) {
  Comparison c = honest();
  c.error = 1;
  c.worst_index = std::int64_t{(1 * 4 + 2) * 10 + 7} * 64 + 33;
  EXPECT_NE(std::string::npos, judged(c).reason.find("batch 1, head 2, row 7, dim 33")) << judged(c).reason;
  EXPECT_NE(std::string::npos, judged(c).reason.find("0.01")) << judged(c).reason;
}

TEST(Judge, RefusesEachKindOfDamage) {
  using Damage = void (*)(Comparison*);
  const struct {
    Damage damage;
    const char* says;
  } cases[] = {
      {[](Comparison* c) { c->unwritten = 3; }, "output: 3 elements were not written"},
      {[](Comparison* c) { c->stray = 2; }, "output: 2 elements were written outside it"},
      {[](Comparison* c) { c->workspace = 4; }, "workspace: 4 words were written outside its bounds"},
      {[](Comparison* c) { c->nonfinite = 1; }, "output: 1 elements are NaN or infinite"},
      {[](Comparison* c) { c->error = NAN; }, "over the bound"},
      {[](Comparison* c) { c->lse_error = 0.01; },
       "log-sum-exp: batch 0, head 0, row 0; the error 0.01 is over the bound 0.001"},
      {[](Comparison* c) { c->lse_error = NAN; }, "log-sum-exp: "},
  };
  for (const auto& one : cases) {
    Comparison c = honest();
    one.damage(&c);
    const Verdict verdict = judged(c);
    EXPECT_FALSE(verdict.passed) << one.says;
    EXPECT_NE(std::string::npos, verdict.reason.find(one.says)) << verdict.reason;
  }
}

}  // namespace
}  // namespace gqa

// The rows that are compared and the judgement of what was measured.

#include "runtime/verify/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "runtime/element.h"
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

constexpr RowUnit kUnit = {0.01, 0.00125};

// What an honest run of a bf16 problem measures: 80 rows that are as far off as the naive computation's.
Comparison honest() {
  Comparison c;
  for (int row = 0; row < 80; ++row) c.rows.add(row, kUnit, {1e-4, 0.004, row * 64 + 33, 64});
  return c;
}

Verdict judged(const Comparison& comparison) {
  const Problem p = problem_of("b=2,hq=4,hk=4,sq=10,d=64,lse=1");
  return judge(measured(p, rows_to_check(p, {}, 80), comparison));
}

TEST(Judge, PassesTheNaiveErrorAndNamesWhatIsClosestToItsBound) {
  EXPECT_EQ("", judged(honest()).reason);
  EXPECT_TRUE(judged(honest()).passed);
  EXPECT_DOUBLE_EQ(1, judged(honest()).error);
  EXPECT_EQ(kFactors.norm, judged(honest()).bound);
}

// Each bound, reached and passed by one row, or by all of them together.
TEST(Judge, HoldsRowsElementsAndAllOfThemToTheirFactors) {
  for (const double share : {0.99, 1.01}) {
    Comparison row = honest(), element = honest(), all;
    const double norm = share * 0.01 * kFactors.row, largest = share * kUnit.element * kFactors.largest;
    row.rows.add((1 * 4 + 2) * 10 + 7, kUnit, {norm * norm, norm / 8, 0, 64});
    element.rows.add(67, kUnit, {largest * largest, largest, 67 * 64 + 33, 64});
    for (int i = 0; i < 80; ++i) all.rows.add(i, kUnit, {std::pow(share * 0.01 * kFactors.norm, 2), 0.002, 0, 64});
    for (const auto& [one, says] : {std::pair<Comparison*, const char*>{&row, "batch 1, head 2, row 7: norm"},
                                    {&element, "batch 1, head 2, row 7, dim 33, against"},
                                    {&all, "80 rows: root mean square"}}) {
      const Verdict verdict = judged(*one);
      EXPECT_EQ(share < 1, verdict.passed) << says << verdict.reason;
      if (share > 1) {
        EXPECT_EQ(0U, verdict.reason.find("output: " + std::string(says))) << verdict.reason;
      }
    }
  }
}

Measured measured_of(const std::string& output, std::vector<Share> errors, const std::string& inputs = {}) {
  Measured made;
  made.output = output;
  made.inputs = inputs;
  made.errors = std::move(errors);
  return made;
}

std::string text_of(const Verdict& verdict) {
  std::ostringstream out;
  for (const Share& one : verdict.errors)
    out << static_cast<int>(one.kind) << " " << one.where << ": " << one.error << " of " << one.bound << "\n";
  return out.str();
}

TEST(Judge, KeepsTheErrorClosestToItsBoundOfEachKindWithItsPlace) {
  Comparison c = honest();
  c.rows.add(67, kUnit, {9e-4, 0.0025, 67 * 64 + 33, 64});
  c.lse_share = 0.25;
  c.worst_lse_index = 11;
  const Problem p = problem_of("b=2,hq=4,hk=4,sq=10,d=64,lse=1");
  EXPECT_EQ(
      "0 output, hard queries: 81 rows: 1.04822 of 1.25\n"
      "1 output, hard queries: batch 1, head 2, row 7: 3 of 5\n"
      "2 output, hard queries: batch 0, head 0, row 0, dim 33: 3.2 of 7\n"
      "3 log-sum-exp, hard queries: batch 0, head 1, row 1: 0.25 of 1\n",
      text_of(judge(measured(p, rows_to_check(p, {}, 80), c, kHardInputs))));
}

TEST(Judge, OfSeveralOutputsKeepsTheWorseAndOfEqualsTheFirst) {
  const Verdict verdict =
      judge({measured_of("a", {{ErrorKind::kRow, "row 1", 2, 5}, {ErrorKind::kElement, "it", 1, 7}}),
             measured_of("b", {{ErrorKind::kRow, "row 2", 2, 4}, {ErrorKind::kElement, "it", 1, 7}})});
  EXPECT_EQ("1 b: row 2: 2 of 4\n2 a: it: 1 of 7\n", text_of(verdict));
  EXPECT_EQ(2, verdict.error);
  EXPECT_EQ(4, verdict.bound);
}

TEST(Judge, AnErrorThatIsNoNumberIsTheWorst) {
  const double nan = std::nan("");
  const Verdict verdict = judge({measured_of("a", {{ErrorKind::kRow, "row 1", 2, 5}}),
                                 measured_of("b", {{ErrorKind::kRow, "row 2", nan, 5}}),
                                 measured_of("c", {{ErrorKind::kRow, "row 3", 4, 5}})});
  EXPECT_FALSE(verdict.passed);
  ASSERT_EQ(1U, verdict.errors.size());
  EXPECT_EQ("b: row 2", verdict.errors[0].where);
  EXPECT_TRUE(std::isnan(verdict.error));
}

// Verifies runs of which each measures a row's error and an element's.
Verdict verified(const std::vector<std::pair<double, double>>& runs, std::size_t* ran) {
  return verify(runs.size(), [&](std::size_t run, std::vector<Measured>* outputs) -> Status {
    *ran = run + 1;
    const std::string place = "run " + std::to_string(run);
    *outputs = {measured_of(
        "o", {{ErrorKind::kElement, place, runs[run].second, 7}, {ErrorKind::kRow, place, runs[run].first, 5}})};
    return {};
  });
}

TEST(Verify, KeepsTheWorstOfEachKindOverAllRuns) {
  std::size_t ran = 0;
  const Verdict passed = verified({{1, 3}, {4, 2}, {2, 6}}, &ran);
  EXPECT_TRUE(passed.passed);
  EXPECT_EQ("1 o: run 1: 4 of 5\n2 o: run 2: 6 of 7\n", text_of(passed));
  EXPECT_EQ(6, passed.error);
  EXPECT_EQ(7, passed.bound);
}

// The first that fails is the last to run; what ran before it counts, too, and is not what the verdict is about.
TEST(Verify, OfARefusedProgramKeepsWhatRanBefore) {
  std::size_t ran = 0;
  const Verdict refused = verified({{4.5, 1}, {1, 8}, {40, 40}}, &ran);
  EXPECT_FALSE(refused.passed);
  EXPECT_EQ(2U, ran);
  EXPECT_EQ("1 o: run 0: 4.5 of 5\n2 o: run 1: 8 of 7\n", text_of(refused));
  EXPECT_EQ("o: run 1, against the naive error's in its row; the error 8 is over the bound 7", refused.reason);
  EXPECT_EQ(8, refused.error);
  EXPECT_EQ(7, refused.bound);
}

TEST(RowUnit, IsTheLargerOfTheNaiveErrorAndWhatRoundingMakesOfTheRow) {
  const RowError none = {0, 0, 0, 64}, naive = {0.25, 0.3, 0, 64}, values = {1e4, 20, 0, 64},
                 tiny = {1e-16, 1e-9, 0, 64};
  EXPECT_EQ(0.5, row_unit(naive, values, kBF16Rounding).norm);
  EXPECT_EQ(0.3 * kOfLargest, row_unit(naive, values, kBF16Rounding).element);
  EXPECT_EQ(100 * kBF16Rounding.relative, row_unit(none, values, kBF16Rounding).norm);
  EXPECT_EQ(20 * kBF16Rounding.relative, row_unit(none, values, kBF16Rounding).element);
  EXPECT_EQ(8 * kF16Rounding.least, row_unit(none, tiny, kF16Rounding).norm);
  EXPECT_EQ(kF16Rounding.least, row_unit(none, tiny, kF16Rounding).element);
  EXPECT_EQ(0, row_unit(none, none, kBF16Rounding).norm);
}

// The root mean square of rounding, measured.
TEST(RowUnit, RoundsAsTheTypesDo) {
  for (const ElementType type : {ElementType::kBF16, ElementType::kF16}) {
    double squares = 0;
    for (int i = 0; i < 10000; ++i) {
      const double x = std::exp2(i * 3e-4);
      squares += std::pow(load(type, store(type, static_cast<float>(x))) / x - 1, 2);
    }
    EXPECT_NEAR(1, std::sqrt(squares / 10000) / rounding_of(type).relative, 0.03);
  }
}

// A row that sees no key is zero, or wrong by any measure; it is not counted among those that are averaged.
TEST(Judge, WantsZeroWhereTheRowIs) {
  Comparison c = honest();
  c.rows.add(3, {}, {0, 0, 0, 64});
  EXPECT_TRUE(judged(c).passed);
  EXPECT_EQ(80, c.rows.rows);
  c.rows.add(3, {}, {1e-30, 1e-15, 0, 64});
  EXPECT_FALSE(judged(c).passed);
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
      {[](Comparison* c) {
         RowError row;
         row.add(NAN, 5);
         c->rows.add(0, kUnit, row);
       },
       "over the bound"},
      {[](Comparison* c) { c->lse_share = 1.5; },
       "log-sum-exp: batch 0, head 0, row 0: as a share of float32's; the error 1.5 is over the bound 1"},
      {[](Comparison* c) { c->lse_share = NAN; }, "log-sum-exp: "},
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

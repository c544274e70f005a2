// What verification is for: arithmetics that are exact pass, and each of four faults is refused, whatever the seed:
// every eighth weight off by 1 %, a row of small outputs zeroed, a wrong row sum, a lost block of light keys. By
// calculation on the inputs of trials, plain and hard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/verdicts.h"
#include "tests/runtime/planted_attention.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

using test::Planted;
using test::PlantedTrial;

Comparison compared(const PlantedTrial& t, const Planted& planted) {
  Comparison comparison;
  const int dim = t.problem.head_dim_v;
  for (std::size_t row = 0; row < t.places.size(); ++row) {
    const std::vector<float> out = test::planted_row(t, row, planted);
    const auto number = static_cast<std::int64_t>(row);
    RowError errors;
    for (int d = 0; d < dim; ++d)
      errors.add(double{out[static_cast<std::size_t>(d)]} -
                     double{t.reference.out[row * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d)]},
                 number * dim + d);
    comparison.rows.add(number, t.reference.units[row], errors);
  }
  return comparison;
}

constexpr int kSeeds = 100;

// Both trials of a problem, for all seeds.
void judge_trials(const Planted& planted, bool passes) {
  for (const char* type : {"bf16", "f16"})
    for (int seed = 0; seed < kSeeds; ++seed) {
      const Problem p = problem_of("hq=12,hk=2,sq=16,sk=150,d=64,dtype=" + std::string(type));
      const Verdict verdict = verify(2, [&](std::size_t run, std::vector<Measured>* all) -> Status {
        const PlantedTrial trial(p, run == 0 ? TrialTensor::kPlain : TrialTensor::kHardQueries,
                                 static_cast<std::uint64_t>(seed));
        *all = measured(p, rows_to_check(p, {}, 1 << 20), compared(trial, planted));
        return {};
      });
      ASSERT_EQ(passes, verdict.passed) << type << ", seed " << seed << ": " << verdict.reason;
    }
}

void expect_judged(const Planted& planted, bool passes) {
  EXPECT_TRUE(test::verdict("", [&] { return test::no_failure_of([&] { judge_trials(planted, passes); }); }));
}

Planted with(bool Planted::*fault) {
  Planted planted;
  planted.*fault = true;
  return planted;
}

TEST(PlantedFaults, ExactArithmeticsPass) {
  expect_judged({}, true);
  Planted wide;
  wide.block = 128;
  expect_judged(wide, true);
}

TEST(PlantedFaults, EveryEighthWeightIsOffByOnePercent) { expect_judged(with(&Planted::eighth), false); }
TEST(PlantedFaults, ARowOfSmallOutputsIsZero) { expect_judged(with(&Planted::zeroed), false); }
TEST(PlantedFaults, ARowSumIsOffByOnePercent) { expect_judged(with(&Planted::sum), false); }
TEST(PlantedFaults, ABlockOfLightKeysIsLost) { expect_judged(with(&Planted::lost), false); }

// What the far levels are for: exact in float32, in whatever order sums are made.
TEST(TrialInputs, FarScoresAreExactInBothTypes) {
  for (const ElementType type : {ElementType::kBF16, ElementType::kF16}) {
    EXPECT_EQ(kFar, load(type, store(type, kFar)));
    EXPECT_EQ(type == ElementType::kBF16, kFarthest == load(type, store(type, kFarthest)));
    for (int row = 0; row < 1000; ++row) EXPECT_EQ(heaviness(row), load(type, store(type, heaviness(row))));
  }
  for (const int head_dim : {16, 64, 128, 256}) EXPECT_LT(-kFar * kLevelOfKeys / std::sqrt(head_dim), -5e4);
}

// Every kind is in a trial of a few heads, alone in some pieces of 64 positions and beside others in the rest.
TEST(TrialInputs, EveryKindOfQueryIsAskedAloneAndBesideOthers) {
  const TrialRows rows = {TrialTensor::kHardQueries, 64, 24, 100, 8, 1};
  std::vector<int> alone(kQueryKinds), beside(kQueryKinds);
  for (int head = 0; head < 24; ++head) {
    std::vector<int> kinds;
    for (int position = 0; position < 64; ++position) kinds.push_back(kind_of_row(rows, position * 24 + head));
    const bool alike = std::all_of(kinds.begin(), kinds.end(), [&](int kind) { return kind == kinds[0]; });
    for (const int kind : kinds) ++(alike ? alone : beside)[static_cast<std::size_t>(kind)];
  }
  for (int kind = 0; kind < kQueryKinds; ++kind) {
    EXPECT_EQ(64, alone[static_cast<std::size_t>(kind)]) << kind;
    EXPECT_GT(beside[static_cast<std::size_t>(kind)], 20) << kind;
  }
}

}  // namespace
}  // namespace gqa

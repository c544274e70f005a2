// Kernels of every family and arithmetic, run on the CPU on what trials read, plain and hard queries, and judged as
// trials judge.
#include <gtest/gtest.h>

#include "tests/runtime/planted_attention.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/warpgroup/launch.h"

namespace gqa::simt {
namespace {

struct HardCase {
  const char* problem;
  const char* candidate;
};

std::ostream& operator<<(std::ostream& out, const HardCase& c) { return out << c.problem << " | " << c.candidate; }

class HardQueries : public ::testing::TestWithParam<HardCase> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

// The trial's inputs in a case of its own.
void take(const test::PlantedTrial& trial, test::AttentionCase* attention) {
  attention->q = trial.q;
  attention->k = trial.k;
  attention->v = trial.v;
  for (std::vector<std::uint16_t>* data : {&attention->q, &attention->k, &attention->v}) data->push_back(0);
  attention->call.place(Role::kQ, attention->q.data());
  attention->call.place(Role::kK, attention->k.data());
  attention->call.place(Role::kV, attention->v.data());
}

Comparison compared(const test::PlantedTrial& trial, const test::AttentionCase& attention, const Outputs& outputs) {
  const Problem& p = attention.call.problem;
  const Strides& s = attention.call.strides(Role::kOut);
  Comparison comparison;
  for (std::size_t row = 0; row < trial.places.size(); ++row) {
    const RowPlace& at = trial.places[row];
    const auto number = static_cast<std::int64_t>(row);
    RowError errors;
    for (int d = 0; d < p.head_dim_v; ++d) {
      const auto out = static_cast<std::size_t>(at.batch * s.batch + at.position * s.row + at.head * s.head + d);
      const auto exact = row * static_cast<std::size_t>(p.head_dim_v) + static_cast<std::size_t>(d);
      errors.add(double{load(p.out_type, outputs.out[out])} - double{trial.reference.out[exact]},
                 number * p.head_dim_v + d);
    }
    comparison.rows.add(number, trial.reference.units[row], errors);
    if (!p.lse) continue;
    const double lse = trial.reference.lse[row], given = outputs.lse[row];
    if (given != lse)
      comparison.lse_share = std::max(comparison.lse_share, in_unit(std::fabs(given - lse), lse_allowed(lse)));
  }
  return comparison;
}

void pass_verification(const Problem& problem, const Candidate& candidate, const Kernel& kernel) {
  const bool has_maps = plan(problem, candidate).maps.query_rows > 0;
  for (const TrialTensor queries : {TrialTensor::kPlain, TrialTensor::kHardQueries}) {
    const test::PlantedTrial trial(problem, queries, 1);
    test::AttentionCase attention(problem);
    take(trial, &attention);
    Outputs outputs;
    const Status status = has_maps ? launch_warpgroup(kernel, candidate, attention, 1, Schedule(), &outputs)
                                   : launch_attention(kernel, candidate, attention, Schedule(), &outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const Verdict verdict =
        judge(measured(problem, rows_to_check(problem, {}, 1 << 20), compared(trial, attention, outputs)));
    EXPECT_TRUE(verdict.passed) << verdict.reason;
  }
}

TEST_P(HardQueries, PassVerification) {
  const Problem problem = test::problem_of(GetParam().problem);
  Candidate candidate;
  ASSERT_TRUE(parse(GetParam().candidate, &candidate).ok());
  EXPECT_TRUE(judged_whole({attention_source(problem, candidate)},
                           [&](const Kernel& kernel) { pass_verification(problem, candidate, kernel); }));
}

INSTANTIATE_TEST_SUITE_P(
    Families, HardQueries,
    ::testing::Values(
        HardCase{"hq=24,hk=2,sq=20,sk=300,d=64", "flash m=64 n=32 warps=4 stages=2 pack=1"},
        HardCase{"hq=12,hk=2,sq=20,sk=300,d=128,dtype=f16,causal", "flash m=32 n=32 warps=2 stages=3 pack=1"},
        HardCase{"b=2,hq=24,hk=3,sq=1,sk=500,d=128", "split m=16 n=16 warps=1 stages=4 pack=8 splits=4"},
        HardCase{"hq=24,hk=2,sq=70,sk=300,d=64", "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0"},
        HardCase{"hq=24,hk=2,sq=70,sk=300,d=64,dtype=f16,causal",
                 "warpgroup m=64 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1"},
        HardCase{"hq=24,hk=2,sq=70,sk=300,d=64,lse=0",
                 "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1"}));

}  // namespace
}  // namespace gqa::simt

// The verification kernels, run on the CPU: the reference is float64's, its units FlashAttention-2's errors, also of
// hard queries; a row, an element and a log-sum-exp that are off are found, in their units; a call that asks for no
// log-sum-exp has no place for one, and none is read; inputs are the host's.
#include <gtest/gtest.h>

#include "jit/codegen.h"
#include "jit/device/check/check_params.h"
#include "runtime/cuda/trial/checker.h"
#include "tests/runtime/planted_attention.h"
#include "tests/simt/kernels/checked_case.h"

namespace gqa::simt {
namespace {

class Check : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  static const Kernel* kernel(const char* name) {
    static std::map<std::string, std::unique_ptr<Kernel>> kernels;
    std::unique_ptr<Kernel>& made = kernels[name];
    std::string why;
    if (made == nullptr) made = Kernel::compile(check_source(), name, &why);
    EXPECT_NE(nullptr, made) << why;
    return made.get();
  }
};

// What the kernels make of a case.
struct Checked {
  std::vector<double> out;
  std::vector<float> lse, units;
  CheckResult made{}, compared{};
};

Checked check(const Kernel& make, const Kernel& compare, const CheckedCase& c) {
  const Problem& p = c.attention.call.problem;
  const int words = element_bytes(p.q_type) / 2;
  const CaseTensor q("q", c.attention.q, c.attention.call.at(Role::kQ), words),
      k("k", c.attention.k, c.attention.call.at(Role::kK), words),
      v("v", c.attention.v, c.attention.call.at(Role::kV), words),
      out("out", c.attention.out, c.attention.call.to(Role::kOut), words);
  const Buffer lse("lse", c.attention.lse);
  const std::size_t rows = c.places.size(), dim = static_cast<std::size_t>(p.head_dim_v);
  std::vector<long long> numbers(rows);
  for (std::size_t i = 0; i < rows; ++i) numbers[i] = static_cast<long long>(i);
  const Buffer row_numbers("rows", numbers), reference("reference", rows * dim * 8), exact_lse("lse", rows * 4),
      units("units", rows * 8), result("result", std::vector<CheckResult>(1)),
      compared("compared", std::vector<CheckResult>(1));
  Call call = c.attention.call;
  call.place(Role::kQ, q.first());
  call.place(Role::kK, k.first());
  call.place(Role::kV, v.first());
  call.place(Role::kOut, out.first());
  call.place(Role::kLse, !call.has(Role::kLse) ? nullptr : lse.as<float>());
  AttentionParams params = params_of(call, Candidate());
  CacheParams cache = cache_params_of(call);
  CheckParams check{};
  check.rows = row_numbers.as<long long>();
  check.reference = reference.as<double>();
  check.reference_lse = exact_lse.as<float>();
  check.units = units.as<float>();
  check.result = result.as<CheckResult>();
  check.scale = call.scale;
  const AttentionRoundings roundings = attention_roundings(p.q_type, p.head_dim);
  check.rounding = static_cast<float>(roundings.of_element.relative);
  check.least = static_cast<float>(roundings.of_element.least);
  check.rounding_of_score = static_cast<float>(roundings.of_score);
  check.most_score = static_cast<float>(kMostScore);
  check.of_query = static_cast<float>(kOfQuery);
  check.of_largest = static_cast<float>(kOfLargest);
  check.lse_relative = static_cast<float>(kLseRelative);
  check.lse_absolute = static_cast<float>(kLseAbsolute);
  check.head_dim = p.head_dim;
  check.head_dim_v = p.head_dim_v;
  check.causal = p.causal();
  check.type = static_cast<int>(p.q_type);
  check.vectors = 1;
  const Buffer sink("sink", c.attention.sink);
  check.chain.sink = p.sink ? sink.as<float>() : nullptr;
  const auto blocks = static_cast<unsigned>(rows);
  void* made_of[] = {&params, &check, &cache};
  Status status = make.launch({{blocks, 1, 1}, {128, 1, 1}, 0, made_of});
  EXPECT_TRUE(status.ok()) << status.message();
  check.result = compared.as<CheckResult>();
  void* compared_of[] = {&params, &check};
  status = compare.launch({{blocks, 1, 1}, {128, 1, 1}, 0, compared_of});
  EXPECT_TRUE(status.ok()) << status.message();
  return {reference.values<double>(), exact_lse.values<float>(), units.values<float>(),
          result.values<CheckResult>().front(), compared.values<CheckResult>().front()};
}

// Every kind of query, in every type: what the host makes of it, which float64 has judged.
TEST_F(Check, TheReferenceIsTheHosts) {
  for (const char* text : {"hq=12,hk=2,sq=20,sk=150,d=64", "hq=12,hk=2,sq=20,sk=150,d=64,dtype=f16",
                           "b=2,hq=6,hk=1,sq=9,sk=4,d=192,dv=128,causal", "hq=12,hk=2,sq=20,sk=150,d=64,dtype=f32"}) {
    CheckedCase c(text);
    c.answer_rightly();
    const bool wide = c.attention.call.problem.q_type == ElementType::kF32;
    const Checked found = check(*kernel(wide ? "gqa_reference_wide" : "gqa_reference"), *kernel("gqa_compare"), c);
    const auto dim = static_cast<std::size_t>(c.attention.call.problem.head_dim_v);
    std::int64_t with_unit = 0;
    for (std::size_t row = 0; row < c.places.size(); ++row) {
      const double unit = c.reference.units[row].norm;
      with_unit += unit > 0;
      // Some elements at a tie round the other way; float32's naive sums are made in other orders.
      EXPECT_NEAR(unit, found.units[2 * row], (wide ? 1 : 0.15) * unit) << text << " " << row;
      const double element = c.reference.units[row].element;
      EXPECT_NEAR(element, found.units[2 * row + 1], (wide ? 1 : 0.4) * element) << text << " " << row;
      for (std::size_t d = 0; d < dim; ++d)
        EXPECT_NEAR(c.reference.out[row * dim + d], found.out[row * dim + d], 0.02 * unit) << text << " " << row;
      if (c.reference.lse[row] != found.lse[row]) {
        EXPECT_NEAR(c.reference.lse[row], found.lse[row], 0.2 * lse_allowed(c.reference.lse[row]))
            << text << " " << row;
      }
    }
    EXPECT_EQ(with_unit, found.made.rows) << text;
    EXPECT_LT(share_of(found.compared.worst_row), 1.1) << text;
    EXPECT_GT(found.compared.squares, 0U) << text;
    EXPECT_LT(share_of(found.compared.worst_lse), 0.2F) << text;
  }
}

TEST_F(Check, FindsWhatIsOffInItsRowsUnit) {
  CheckedCase c("hq=2,hk=1,sq=3,sk=40,d=32");
  c.answer_rightly();
  const Checked before = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
  const std::size_t row = 4;
  const float unit = before.units[2 * row], element_unit = before.units[2 * row + 1];
  std::uint16_t& element = c.attention.out[c.first_of(c.places[row]) + 5];
  element = store(ElementType::kBF16, load(ElementType::kBF16, element) + 100 * unit);
  c.attention.lse[2] += static_cast<float>(3 * lse_allowed(c.attention.lse[2]));
  const Checked after = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
  EXPECT_NEAR(100, share_of(after.compared.worst_row), 2);
  EXPECT_EQ(row, after.compared.worst_row & 0xffffffffU);
  EXPECT_NEAR(100 * unit / element_unit, share_of(after.compared.worst_element), 0.02 * 100 * unit / element_unit);
  EXPECT_EQ(row * 32 + 5, after.compared.worst_element & 0xffffffffU);
  EXPECT_NEAR(1e4, static_cast<double>(after.compared.squares) / static_cast<double>(kSquaresUnit), 400);
  EXPECT_NEAR(3, share_of(after.compared.worst_lse), 0.2);
  EXPECT_EQ(2U, after.compared.worst_lse & 0xffffffffU);

  element = store(ElementType::kBF16, NAN);
  const Checked none = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
  EXPECT_GT(share_of(none.compared.worst_row), 1e6);
  EXPECT_GT(static_cast<double>(none.compared.squares), 1e6 * static_cast<double>(kSquaresUnit));
}

// Whose squares float32 does not have.
TEST_F(Check, RowsThatASinkMakesTinyHaveAUnit) {
  CheckedCase c("hq=12,hk=2,sq=20,sk=150,d=64,sink");
  c.answer_rightly();
  const Checked found = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
  const auto tiny = [&](std::size_t row) {
    return c.reference.units[row].norm > 0 && c.reference.units[row].norm < 1e-25;
  };
  std::size_t some = c.places.size();
  for (std::size_t row = 0; row < c.places.size(); ++row)
    if (tiny(row)) some = row;
  ASSERT_LT(some, c.places.size());
  EXPECT_LT(share_of(found.compared.worst_row), 3);
  std::uint16_t& element = c.attention.out[c.first_of(c.places[some]) + 5];
  element = store(ElementType::kBF16,
                  load(ElementType::kBF16, element) + 100 * static_cast<float>(c.reference.units[some].norm));
  EXPECT_GT(share_of(check(*kernel("gqa_reference"), *kernel("gqa_compare"), c).compared.worst_row), 10);
}

TEST_F(Check, ARowThatSeesNoKeyMustBeZero) {
  CheckedCase c("hq=1,hk=1,sq=5,sk=3,d=32,causal");
  c.answer_rightly();
  EXPECT_LT(share_of(check(*kernel("gqa_reference"), *kernel("gqa_compare"), c).compared.worst_row), 2);
  c.attention.out[3] = store(ElementType::kBF16, 1e-30F);
  const Checked found = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
  EXPECT_EQ(3U, found.made.rows);
  EXPECT_GT(share_of(found.compared.worst_row), 1e6);
}

TEST_F(Check, LogSumExpIsComparedWhereItIsAskedFor) {
  CheckedCase c("b=1,hq=2,hk=1,sq=3,sk=4,d=32,lse=0");
  c.answer_rightly();
  c.attention.lse[2] += 1;
  EXPECT_EQ(0U, check(*kernel("gqa_reference"), *kernel("gqa_compare"), c).compared.worst_lse);
}

// Exact arithmetics pass on the kernels' own measurements, and what planted_faults_test.cc plants does not.
TEST_F(Check, PlantedFaultsAreRefused) {
  using test::Planted;
  const auto judged = [](const Planted& planted) {
    CheckedCase c("hq=12,hk=2,sq=16,sk=150,d=64");
    const Problem& p = c.attention.call.problem;
    test::PlantedTrial trial(p, TrialTensor::kHardQueries, 1);
    c.attention.q = trial.q;
    c.attention.k = trial.k;
    c.attention.v = trial.v;
    for (std::vector<std::uint16_t>* data : {&c.attention.q, &c.attention.k, &c.attention.v}) data->push_back(0);
    c.attention.call.place(Role::kQ, c.attention.q.data());
    c.attention.call.place(Role::kK, c.attention.k.data());
    c.attention.call.place(Role::kV, c.attention.v.data());
    for (std::size_t row = 0; row < c.places.size(); ++row) {
      const std::vector<float> out = test::planted_row(trial, row, planted);
      for (std::size_t d = 0; d < out.size(); ++d)
        c.attention.out[c.first_of(c.places[row]) + d] = store(p.q_type, out[d]);
      c.attention.lse[row] = trial.reference.lse[row];
    }
    const Checked found = check(*kernel("gqa_reference"), *kernel("gqa_compare"), c);
    Comparison comparison;
    comparison.rows = row_errors(found.compared, found.made.rows);
    comparison.lse_share = share_of(found.compared.worst_lse);
    return judge(measured(p, rows_to_check(p, {}, 1 << 20), comparison));
  };
  EXPECT_TRUE(judged({}).passed) << judged({}).reason;
  for (bool Planted::*const fault : {&Planted::eighth, &Planted::zeroed, &Planted::sum, &Planted::lost}) {
    Planted planted;
    planted.*fault = true;
    EXPECT_NE(std::string::npos, judged(planted).reason.find("output: ")) << judged(planted).reason;
  }
}

// Off 16-byte alignment, too.
TEST_F(Check, InputsAreTheHosts) {
  for (const TrialTensor tensor : {TrialTensor::kPlain, TrialTensor::kKeys, TrialTensor::kHardQueries})
    for (const long long first : {0LL, 1LL}) {
      TrialRows rows = {tensor, 32, 3, 50, std::sqrt(32.F), 1};
      const Buffer data("data", 2 * 3 * 200 * 32);
      unsigned short* at = data.as<unsigned short>();
      long long count = 3 * 200 * 32, start = first;
      unsigned long long seed = 5;
      void* arguments[] = {&at, &count, &seed, &start, &rows};
      const Status status = kernel("gqa_fill")->launch({{4, 1, 1}, {256, 1, 1}, 0, arguments});
      ASSERT_TRUE(status.ok()) << status.message();
      const auto found = data.values<std::uint16_t>();
      for (long long i = 0; i < count; ++i) {
        const float normal = near_normal(seed * 0x100000001ULL + static_cast<unsigned long long>(i));
        const float expected = i < first ? normal : trial_element(rows, normal, i - first);
        ASSERT_EQ(store(ElementType::kBF16, expected), found[static_cast<std::size_t>(i)]) << i;
      }
    }
}

}  // namespace
}  // namespace gqa::simt

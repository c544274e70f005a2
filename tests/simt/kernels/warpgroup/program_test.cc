// The warpgroup family as a program's kernel: a chain on the scores, keys that lie transposed, on the CPU against the
// formula in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "search/graph/tile/kernel_plan.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/warpgroup/launch.h"

namespace gqa::simt {
namespace {

struct Case {
  const char* problem;
  const char* candidate;
  bool transposed, softcap;
};

constexpr double kScale = 0.05, kCap = 20;

class WarpgroupPrograms : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  static FamilyKernel kernel_of(const Case& c) {
    FamilyKernel kernel;
    EXPECT_TRUE(parse(c.problem, &kernel.form.problem).ok()) << c.problem;
    EXPECT_TRUE(parse(c.candidate, &kernel.candidate).ok()) << c.candidate;
    kernel.form.problem.keys = c.transposed ? KeyLayout::kTransposed : KeyLayout::kDense;
    kernel.form.scale = kScale;
    if (c.softcap) {
      kernel.form.problem.chain = softcap_chain();
      kernel.form.scale = kScale * kCap;
      kernel.form.slots[kSoftcapSlot] = kCap;
    }
    return kernel;
  }

  // The same keys as rows of head_dim; rows are aligned to 16 bytes.
  static void transpose_keys(test::AttentionCase* attention) {
    const Problem& p = attention->call.problem;
    const std::int64_t pitch = (p.kv_len + 7) / 8 * 8, heads = std::int64_t{p.kv_heads} * p.head_dim * pitch;
    const Strides from = attention->call.strides(Role::kK), to = {heads, pitch, p.head_dim * pitch};
    std::vector<std::uint16_t> keys(static_cast<std::size_t>(p.batch * heads) + 1);
    for (int b = 0; b < p.batch; ++b)
      for (int h = 0; h < p.kv_heads; ++h)
        for (int j = 0; j < p.kv_len; ++j)
          for (int d = 0; d < p.head_dim; ++d)
            keys[static_cast<std::size_t>(b * to.batch + h * to.head + d * to.row + j)] =
                attention->k[static_cast<std::size_t>(b * from.batch + h * from.head + j * from.row + d)];
    attention->k = keys;
    attention->call.place(Role::kK, attention->k.data());
    attention->call.strides(Role::kK) = to;
  }

  // Row (b, h, i) of the formula, on keys as rows of their own.
  static std::vector<double> expected(const test::AttentionCase& given, bool softcap, int b, int h, int i) {
    const Problem& p = given.call.problem;
    const int head = h / p.group(), last = p.causal() ? i + p.kv_len - p.q_len : p.kv_len - 1;
    const auto at = [&](const std::vector<std::uint16_t>& data, const Strides& s, int row, int of, int d) {
      return static_cast<double>(
          load(p.q_type, data[static_cast<std::size_t>(b * s.batch + row * s.row + of * s.head + d)]));
    };
    std::vector<double> out(static_cast<std::size_t>(p.head_dim_v));
    double sum = 0;
    for (int j = 0; j <= std::min(last, p.kv_len - 1); ++j) {
      double score = 0;
      for (int d = 0; d < p.head_dim; ++d)
        score +=
            at(given.q, given.call.strides(Role::kQ), i, h, d) * at(given.k, given.call.strides(Role::kK), j, head, d);
      const double weight = std::exp(softcap ? kCap * std::tanh(kScale * score) : kScale * score);
      sum += weight;
      for (int d = 0; d < p.head_dim_v; ++d)
        out[static_cast<std::size_t>(d)] += weight * at(given.v, given.call.strides(Role::kV), j, head, d);
    }
    for (double& value : out) value = sum > 0 ? value / sum : 0;
    return out;
  }

  static void expect_formula(const Case& c, const FamilyKernel& family, const Kernel& kernel) {
    Problem plain = family.form.problem;
    plain.keys = KeyLayout::kDense;
    const test::AttentionCase given(plain);
    test::AttentionCase attention(plain);
    if (c.transposed) transpose_keys(&attention);
    attention.call.problem = family.form.problem;
    attention.call.scale = family.form.scale;
    attention.call.slots = family.form.slots;
    const Status status = run_warpgroup(kernel, family.candidate, 1, &attention, schedules());
    ASSERT_TRUE(status.ok()) << status.message();
    for (int b = 0; b < plain.batch; ++b)
      for (int h = 0; h < plain.q_heads; ++h)
        for (int i = 0; i < plain.q_len; ++i) {
          const std::vector<double> right = expected(given, c.softcap, b, h, i);
          for (int d = 0; d < plain.head_dim_v; ++d)
            ASSERT_NEAR(right[static_cast<std::size_t>(d)], static_cast<double>(attention.out_at(b, h, i, d)),
                        attention.slack * 4)
                << b << " " << h << " " << i << " " << d;
        }
  }
};

TEST_P(WarpgroupPrograms, AgreeWithTheFormulaUnderEverySchedule) {
  const Case& c = GetParam();
  const FamilyKernel family = kernel_of(c);
  const KernelText text = {attention_source(family.form.problem, family.candidate)};
  EXPECT_TRUE(judged_whole(text, [&](const Kernel& kernel) { expect_formula(c, family, kernel); }));
}

INSTANTIATE_TEST_SUITE_P(
    Features, WarpgroupPrograms,
    ::testing::Values(Case{"b=1,hq=2,hk=1,sq=70,sk=200,d=64,causal,dtype=f16",
                           "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0", false, true},
                      Case{"b=2,hq=2,hk=1,sq=50,sk=150,d=64,dtype=f16",
                           "warpgroup m=64 n=64 warps=4 stages=3 pack=2 dynamic=1 out=0", true, false},
                      Case{"b=1,hq=2,hk=1,sq=100,sk=300,d=64,causal,dtype=f16,lse=0",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1", false, true},
                      Case{"b=1,hq=1,hk=1,sq=100,sk=300,d=80,causal,dtype=f16",
                           "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1", true, true}));

}  // namespace
}  // namespace gqa::simt

// What the accuracy tests hold kernels against, run on the CPU: float64 attention is the formula's, FlashAttention-2's
// stand-in is off by what rounded weights and a rounded output are off by, and errors are what they are.
#include <gtest/gtest.h>

#include <cmath>

#include "jit/device/check/check_params.h"
#include "tests/runtime/cuda/accuracy_kernels.h"
#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {
namespace {

class Accuracy : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
    std::string why;
    exact_ = Kernel::compile(test::kAccuracySource, "gqa_exact", &why);
    ASSERT_NE(nullptr, exact_) << why;
    row_errors_ = Kernel::compile(test::kAccuracySource, "gqa_row_errors", &why);
    ASSERT_NE(nullptr, row_errors_) << why;
  }

  std::unique_ptr<Kernel> exact_, row_errors_;
};

// FlashAttention-2's row, in float64 but for its roundings: blocks of keys from the last down, under a running maximum.
std::vector<double> flash_attention_2(const Call& call, int batch, int head, int position) {
  const Problem& p = call.problem;
  const int keys = !call.has(Role::kKvLengths) ? p.kv_len : call.list(Role::kKvLengths)[batch];
  std::vector<double> scores(static_cast<std::size_t>(keys)), out(static_cast<std::size_t>(p.head_dim_v));
  const plain::Row q = plain::row_of(call, Role::kQ, batch, position, head);
  double highest = -INFINITY, sum = 0;
  const int block = p.head_dim <= 64 ? 128 : 64;
  for (int j = 0; j < keys; ++j) {
    double& score = scores[static_cast<std::size_t>(j)];
    const plain::Row k = plain::key_of(call, batch, j, head / p.group());
    for (int d = 0; d < p.head_dim; ++d) score += double{q[d]} * double{k[d]};
    score = p.causal() && j > position + keys - p.q_len ? -INFINITY : score * double{call.scale};
  }
  for (int j = keys - 1, end = keys; j >= 0; --j) {
    if (j == end - 1) {  // a block's last key
      const int first = j / block * block;
      const double before = highest;
      for (int i = first; i < end; ++i) highest = std::max(highest, scores[static_cast<std::size_t>(i)]);
      const double rescale = before > -INFINITY ? std::exp(before - highest) : 0;
      sum *= rescale;
      for (double& one : out) one *= rescale;
      end = first;
    }
    if (highest == -INFINITY) continue;
    const double weight = std::exp(scores[static_cast<std::size_t>(j)] - highest);
    sum += weight;
    const plain::Row v = plain::row_of(call, Role::kV, batch, j, head / p.group());
    for (int d = 0; d < p.head_dim_v; ++d)
      out[static_cast<std::size_t>(d)] +=
          double{load(p.q_type, store(p.q_type, static_cast<float>(weight)))} * double{v[d]};
  }
  for (double& one : out) one = sum > 0 ? load(p.q_type, store(p.q_type, static_cast<float>(one / sum))) : 0;
  return out;
}

TEST_P(Accuracy, IsFloat64sAndFlashAttention2s) {
  test::AttentionCase attention(test::problem_of(GetParam()));
  const Problem& p = attention.call.problem;
  const std::size_t rows = attention.lse.size(), dim = static_cast<std::size_t>(p.head_dim_v);
  const CaseTensor q("q", attention.q, attention.call.at(Role::kQ)), k("k", attention.k, attention.call.at(Role::kK)),
      v("v", attention.v, attention.call.at(Role::kV)), given("out", attention.out, attention.call.to(Role::kOut));
  std::vector<long long> numbers(rows);
  for (std::size_t i = 0; i < rows; ++i) numbers[i] = static_cast<long long>(i);
  const Buffer lengths("lengths", attention.lengths), row_numbers("rows", numbers), out("exact", rows * dim * 8),
      lse("exact_lse", rows * 8), stand_in("stand_in", rows * dim * 2), errors("errors", rows * 24);
  Call call = attention.call;
  call.place(Role::kQ, q.first());
  call.place(Role::kK, k.first());
  call.place(Role::kV, v.first());
  call.place(Role::kOut, given.first());
  call.place(Role::kLse, nullptr);
  if (call.has(Role::kKvLengths)) call.place(Role::kKvLengths, lengths.as<std::int32_t>());
  AttentionParams params = params_of(call, Candidate());
  CacheParams cache = cache_params_of(call);
  CheckParams check{};
  check.rows = row_numbers.as<long long>();
  check.scale = call.scale;
  check.head_dim = p.head_dim;
  check.head_dim_v = p.head_dim_v;
  check.causal = p.causal();
  check.type = static_cast<int>(p.q_type);
  void *out_at = out.data(), *lse_at = lse.data(), *stand_in_at = stand_in.data(), *errors_at = errors.data();
  void* exact_arguments[] = {&params, &check, &cache, &out_at, &lse_at, &stand_in_at};
  const Launch launch = {{static_cast<unsigned>(rows), 1, 1}, {128, 1, 1}, 0, exact_arguments};
  Status status = exact_->launch(launch);
  ASSERT_TRUE(status.ok()) << status.message();
  void* error_arguments[] = {&params, &check, &out_at, &lse_at, &stand_in_at, &errors_at};
  status = row_errors_->launch({{static_cast<unsigned>(rows), 1, 1}, {128, 1, 1}, 0, error_arguments});
  ASSERT_TRUE(status.ok()) << status.message();

  double norm = 0, expected_norm = 0;
  std::size_t row = 0;
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i, ++row) {
        std::vector<double> exact(dim);
        double exact_lse = 0;
        reference_row(attention.call, b, h, i, exact.data(), &exact_lse);
        const std::vector<double> expected = flash_attention_2(attention.call, b, h, i);
        if (exact_lse == -INFINITY)
          EXPECT_EQ(exact_lse, lse.values<double>()[row]);
        else
          EXPECT_NEAR(exact_lse, lse.values<double>()[row], 1e-10) << row;
        double squares = 0, worst = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          EXPECT_NEAR(exact[d], out.as<double>()[row * dim + d], 1e-10) << row << "," << d;
          const double error = load(p.q_type, stand_in.as<std::uint16_t>()[row * dim + d]) - exact[d];
          squares += error * error;
          worst = std::max(worst, std::fabs(error));
          expected_norm += (expected[d] - exact[d]) * (expected[d] - exact[d]);
        }
        EXPECT_NEAR(squares, errors.as<double>()[3 * row], 1e-9 * squares);
        EXPECT_NEAR(worst, errors.as<double>()[3 * row + 1], 1e-9 * worst);
        norm += squares;
      }
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(1, std::sqrt(norm / expected_norm), 0.02);  // of elements at a tie some round the other way
}

INSTANTIATE_TEST_SUITE_P(Kinds, Accuracy,
                         ::testing::Values("b=2,hq=2,hk=1,sq=5,sk=300,d=64", "hq=2,sq=9,sk=200,d=192,dv=128,causal",
                                           "hq=1,sq=9,sk=4,d=32,causal,dtype=f16",
                                           "b=3,hq=2,hk=1,sq=1,sk=150,d=80,dtype=f16,lens"));

}  // namespace
}  // namespace gqa::simt

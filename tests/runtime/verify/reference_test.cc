// The reference of verification against attention as its formula is written, row by row; and that against numbers
// worked out by hand, and float32 against float64.

#include "runtime/verify/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/element.h"
#include "runtime/verify/judgement.h"
#include "tests/runtime/cache_case.h"
#include "tests/runtime/plain_attention.h"
#include "tests/runtime/stand_in.h"

namespace gqa {
namespace {

struct Tensors {
  explicit Tensors(const std::string& text, float magnitude = 1) {
    const Status status = parse(text, &call.problem);
    EXPECT_TRUE(status.ok()) << status.message();
    const Problem& p = call.problem;
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, magnitude);
    const auto make = [&](std::vector<std::uint16_t>* data, int length, int heads, int dim) {
      data->resize(static_cast<std::size_t>(p.batch) * length * heads * dim);
      for (std::uint16_t& bits : *data) bits = store(p.q_type, normal(random));
      return Strides{std::int64_t{length} * heads * dim, std::int64_t{heads} * dim, dim};
    };
    call.strides(Role::kQ) = make(&q, p.q_len, p.q_heads, p.head_dim);
    call.strides(Role::kK) = make(&k, p.kv_len, p.kv_heads, p.head_dim);
    call.strides(Role::kV) = make(&v, p.kv_len, p.kv_heads, p.head_dim_v);
    call.place(Role::kQ, q.data());
    call.place(Role::kK, k.data());
    call.place(Role::kV, v.data());
    call.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    call.slots = {1.5F, 0.75F, 2.25F, 0.5F};
  }

  std::vector<std::uint16_t> q, k, v;
  Call call;
};

// Query and keys along one dimension: scores are products of their only numbers.
TEST(PlainAttention, TwoKeysByHand) {
  Tensors t("b=1,hq=1,hk=1,sq=1,sk=2,d=32,dtype=f16");
  std::fill(t.q.begin(), t.q.end(), std::uint16_t{0});
  std::fill(t.k.begin(), t.k.end(), std::uint16_t{0});
  t.q[5] = store(ElementType::kF16, 2);
  t.k[5] = store(ElementType::kF16, 3);
  t.k[32 + 5] = store(ElementType::kF16, 1);
  t.v[7] = store(ElementType::kF16, 10);
  t.v[32 + 7] = store(ElementType::kF16, -20);
  t.call.scale = 0.5F;  // scores 3 and 1
  std::vector<double> out(32);
  double lse = 0;
  reference_row(t.call, 0, 0, 0, out.data(), &lse);
  const double first = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(10 * first - 20 * (1 - first), out[7], 1e-12);
  EXPECT_NEAR(std::log(std::exp(3.0) + std::exp(1.0)), lse, 1e-12);
}

TEST(PlainAttention, TwoKeysAndASinkByHand) {
  Tensors t("b=1,hq=1,hk=1,sq=1,sk=2,d=32,dtype=f16,sink");
  std::fill(t.q.begin(), t.q.end(), std::uint16_t{0});  // scores 0 and 0
  t.v[7] = store(ElementType::kF16, 10);
  t.v[32 + 7] = store(ElementType::kF16, -20);
  const float sink = 1;
  t.call.place(Role::kSink, &sink);
  std::vector<double> out(32);
  double lse = 0;
  reference_row(t.call, 0, 0, 0, out.data(), &lse);
  EXPECT_NEAR(-10 / (2 + std::exp(1.0)), out[7], 1e-12);
  EXPECT_NEAR(std::log(2 + std::exp(1.0)), lse, 1e-12);
}

TEST(PlainAttention, CausalIsAlignedBottomRight) {
  const Tensors t("b=1,hq=1,hk=1,sq=4,sk=2,d=32,causal");
  std::vector<double> out(32, 9), hidden(32, 0);
  double lse = 9;
  for (const int position : {0, 1}) {  // see no key
    reference_row(t.call, 0, 0, position, out.data(), &lse);
    EXPECT_EQ(hidden, out);
    EXPECT_EQ(-INFINITY, lse);
  }
  reference_row(t.call, 0, 0, 2, out.data(), &lse);  // sees the first key: its value is the output
  for (std::size_t d = 0; d < 32; ++d) EXPECT_EQ(double{load(ElementType::kBF16, t.v[d])}, out[d]);
}

TEST(PlainAttention, HeadsOfAGroupShareKeys) {
  const Tensors t("b=2,hq=6,hk=2,sq=1,sk=1,d=32");
  std::vector<double> out(32);
  double lse = 0;
  for (int batch = 0; batch < 2; ++batch)
    for (int head = 0; head < 6; ++head) {
      reference_row(t.call, batch, head, 0, out.data(), &lse);
      const auto value = static_cast<std::size_t>((batch * 2 + head / 3) * 32);
      for (std::size_t d = 0; d < 32; ++d) EXPECT_EQ(double{load(ElementType::kBF16, t.v[value + d])}, out[d]);
    }
}

// Every row: the largest difference between the two precisions.
double float32_error(const Tensors& t) {
  const Problem& p = t.call.problem;
  std::vector<double> exact(static_cast<std::size_t>(p.head_dim_v));
  std::vector<float> single(exact.size());
  double error = 0, exact_lse = 0;
  float lse = 0;
  for (int batch = 0; batch < p.batch; ++batch)
    for (int head = 0; head < p.q_heads; ++head)
      for (int position = 0; position < p.q_len; ++position) {
        reference_row(t.call, batch, head, position, exact.data(), &exact_lse);
        reference_row(t.call, batch, head, position, single.data(), &lse);
        for (std::size_t d = 0; d < exact.size(); ++d) error = std::max(error, std::fabs(double{single[d]} - exact[d]));
        if (exact_lse != double{lse}) error = std::max(error, std::fabs(double{lse} - exact_lse));
      }
  return error;
}

TEST(PlainAttention, Float32AgreesWithFloat64) {
  for (const char* text : {"b=2,hq=4,hk=2,sq=17,sk=40,d=64,causal", "b=1,hq=3,hk=1,sq=9,sk=5,d=80,causal,dtype=f16",
                           "b=1,hq=2,hk=2,sq=3,sk=700,d=256", "b=1,hq=2,hk=1,sq=8,sk=33,d=192,dv=128"})
    EXPECT_LT(float32_error(Tensors(text)), 5e-6) << text;
  // Scores in the hundreds: one key dominates each row, and nothing overflows.
  EXPECT_LT(float32_error(Tensors("b=1,hq=2,hk=1,sq=8,sk=60,d=64", 8)), 1e-3);
}

TEST(PlainAttention, TransposedKeysAreTheSameKeys) {
  Tensors plain("b=2,hq=4,hk=2,sq=3,sk=10,d=64,causal"), transposed("b=2,hq=4,hk=2,sq=3,sk=10,d=64,causal,ktrans");
  transposed.call.strides(Role::kK) = {2 * 64 * 10, 10, 64 * 10};
  const Strides &from = plain.call.strides(Role::kK), &to = transposed.call.strides(Role::kK);
  for (int batch = 0; batch < 2; ++batch)
    for (int head = 0; head < 2; ++head)
      for (int key = 0; key < 10; ++key)
        for (int d = 0; d < 64; ++d)
          transposed.k[static_cast<std::size_t>(batch * to.batch + head * to.head + d * to.row + key)] =
              plain.k[static_cast<std::size_t>(batch * from.batch + head * from.head + key * from.row + d)];
  double expected[64], given[64], lse = 0, given_lse = 0;
  for (int batch = 0; batch < 2; ++batch)
    for (int head = 0; head < 4; ++head) {
      reference_row(plain.call, batch, head, 1, expected, &lse);
      reference_row(transposed.call, batch, head, 1, given, &given_lse);
      EXPECT_EQ(lse, given_lse);
      EXPECT_TRUE(std::equal(expected, expected + 64, given));
    }
}

// ---- the rows of verification

std::vector<RowPlace> all_rows(const Problem& p) {
  std::vector<RowPlace> rows;
  for (int batch = 0; batch < p.batch; ++batch)
    for (int head = 0; head < p.q_heads; ++head)
      for (int position = 0; position < p.q_len; ++position) rows.push_back({batch, head, position});
  return rows;
}

// A row's unit: the stand-in's error there, in float64 but for its roundings, or the type's own.
double unit_of_row(const Call& call, const RowPlace& at, const std::vector<double>& exact) {
  const std::vector<double> stand_in = test::stand_in_row(call, at.batch, at.head, at.position);
  double error = 0, size = 0;
  for (std::size_t d = 0; d < exact.size(); ++d) {
    error += (stand_in[d] - exact[d]) * (stand_in[d] - exact[d]);
    size += exact[d] * exact[d];
  }
  const Roundings& rounding = call.problem.out_type == ElementType::kBF16 ? kBF16Rounding : kF16Rounding;
  return size > 0 ? std::max(std::sqrt(error), rounding.relative * std::sqrt(size)) : 0;
}

void expect_the_plain_rows(const Tensors& t, double tolerance) {
  const Problem& p = t.call.problem;
  const std::vector<RowPlace> rows = all_rows(p);
  const ReferenceRows found = reference_rows(t.call, rows, {});
  const auto dim = static_cast<std::size_t>(p.head_dim_v);
  std::vector<double> exact(dim);
  double lse = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const RowPlace& at = rows[row];
    reference_row(t.call, at.batch, at.head, at.position, exact.data(), &lse);
    for (std::size_t d = 0; d < dim; ++d)
      ASSERT_NEAR(double{found.out[row * dim + d]}, exact[d], tolerance) << row << " " << d;
    if (lse != double{found.lse[row]}) {
      ASSERT_NEAR(double{found.lse[row]}, lse, tolerance) << row;
    }
    // Some elements at a tie round the other way.
    const double unit = unit_of_row(t.call, at, exact);
    ASSERT_NEAR(found.units[row].norm, unit, 0.15 * unit) << row;
  }
}

TEST(ReferenceRows, AreThePlainRows) {
  for (const char* text :
       {"b=2,hq=4,hk=2,sq=17,sk=40,d=64,causal", "b=1,hq=3,hk=1,sq=9,sk=5,d=80,causal,dtype=f16",
        "b=1,hq=2,hk=2,sq=3,sk=700,d=256", "b=1,hq=2,hk=1,sq=8,sk=33,d=192,dv=128",
        "b=2,hq=4,hk=2,sq=3,sk=100,d=64,causal,ktrans", "b=1,hq=1,hk=1,sq=1,sk=1,d=32",
        "b=1,hq=2,hk=1,sq=9,sk=50,d=64,causal,softcap", "b=1,hq=2,hk=1,sq=3,sk=50,d=64,scores=mul2+silu+sub3+div1",
        "b=1,hq=2,hk=1,sq=3,sk=50,d=64,scores=gelu+exp2", "b=1,hq=2,hk=1,sq=3,sk=50,d=64,scores=square+add1+rsqrt",
        "b=1,hq=2,hk=1,sq=3,sk=50,d=64,scores=exp+reciprocal+sqrt+add0"}) {
    Tensors t(text);
    if (t.call.problem.keys_transposed()) t.call.strides(Role::kK) = {2 * 64 * 100, 100, 64 * 100};
    SCOPED_TRACE(text);
    expect_the_plain_rows(t, 5e-6);
  }
}

TEST(ReferenceRows, ReadArraysOfHeadsRowsAndScores) {
  for (const char* steps : {"mulhead", "mulrow+tanh", "addtensor", "mulrow+addtensor32", "sub1+divhead+addtensor"}) {
    Tensors t("b=2,hq=4,hk=2,sq=5,sk=70,d=64,causal,scores=" + std::string(steps));
    test::ChainArraysCase arrays;
    arrays.make(t.call.problem, [&](int, int i, int j) { return plain::sees(t.call.problem, i, 70, j); });
    arrays.give(&t.call);
    SCOPED_TRACE(steps);
    expect_the_plain_rows(t, 5e-6);
  }
}

TEST(ReferenceRows, SinksAreInTheDenominatorOnly) {
  const float sinks[] = {2.5F, -1, 4, -std::numeric_limits<float>::infinity()};
  for (const char* text : {"b=2,hq=4,hk=2,sq=3,sk=40,d=64,causal,sink", "b=1,hq=4,hk=1,sq=9,sk=5,d=64,causal,sink",
                           "b=1,hq=4,hk=1,sq=9,sk=5,d=64,causal,sink,softcap"}) {
    Tensors t(text);
    t.call.place(Role::kSink, sinks);
    SCOPED_TRACE(text);
    expect_the_plain_rows(t, 5e-6);
  }
}

TEST(ReferenceRows, ComeInTheOrderAskedFor) {
  const Tensors t("b=2,hq=4,hk=2,sq=7,sk=70,d=64");
  const ReferenceRows all = reference_rows(t.call, all_rows(t.call.problem), {});
  const ReferenceRows few = reference_rows(t.call, {{1, 3, 6}, {0, 0, 0}, {1, 3, 5}}, {});
  EXPECT_TRUE(std::equal(few.out.begin(), few.out.begin() + 64, all.out.begin() + (7 * 8 - 1) * 64));
  EXPECT_TRUE(std::equal(few.out.begin() + 64, few.out.begin() + 128, all.out.begin()));
  EXPECT_EQ(few.lse[2], all.lse[7 * 8 - 2]);
}

TEST(ReferenceRows, EndWhenToldTo) {
  const Tensors t("b=1,hq=1,hk=1,sq=64,sk=2000,d=64");
  int asked = 0;
  Workers workers;
  workers.stop = [&] { return ++asked > 3; };
  reference_rows(t.call, all_rows(t.call.problem), workers);
  EXPECT_LT(asked, 40);  // of 2 x 32 blocks of keys in each of 8 groups of rows
}

// ---- caches: lengths, pages and windows, against the naive loop over what is meant

void expect_reference_right(const std::string& text, const std::vector<std::int32_t>& lengths) {
  test::CacheCase t(text, lengths);
  const Problem& p = t.call.problem;
  std::vector<RowPlace> places;
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i) places.push_back({b, h, i});
  const ReferenceRows made = reference_rows(t.call, places, Workers());
  for (std::size_t at = 0; at < places.size(); ++at) {
    const RowPlace& place = places[at];
    for (int d = 0; d < p.head_dim_v; ++d)
      t.out[static_cast<std::size_t>(
          ((std::int64_t{place.batch} * p.q_len + place.position) * p.q_heads + place.head) * p.head_dim_v + d)] =
          store(p.q_type, made.out[at * static_cast<std::size_t>(p.head_dim_v) + static_cast<std::size_t>(d)]);
    t.lse[at] = made.lse[at];
  }
  EXPECT_TRUE(t.right());
  for (const RowUnit& unit : made.units) EXPECT_TRUE(unit.norm >= 0 && unit.norm < 0.1) << unit.norm;
}

TEST(Reference, LengthsPagesAndWindows) {
  expect_reference_right("b=4,hq=4,hk=2,sq=3,sk=150,d=32,causal,lens,lse,dtype=f16", {150, 0, 2, 97});
  expect_reference_right("b=3,hq=4,hk=2,sq=3,sk=150,d=32,dv=64,lens,lse,page=16,dtype=f16", {150, 131, 5});
  expect_reference_right("b=2,hq=2,hk=2,sq=1,sk=70,d=32,lse,page=3,dtype=f16", {});
  for (const char* window : {",left=0,right=0", ",left=70", ",right=2", ",left=9,causal", ",left=7,right=3"})
    expect_reference_right("b=3,hq=2,hk=1,sq=20,sk=150,d=32,lens,lse,page=64,dtype=f16" + std::string(window),
                           {150, 0, 11});
}

}  // namespace
}  // namespace gqa

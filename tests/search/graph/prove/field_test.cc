// field_test.cc: the primes are primes, and the laws that proofs rest on hold (and the ones that should not, do not).
#include "search/graph/prove/field.h"

#include <gtest/gtest.h>

namespace gqa {
namespace {

// Miller-Rabin with the first twelve primes as bases decides every number under 3.3 * 10^24.
bool is_prime(std::uint64_t n) {
  int twos = 0;
  std::uint64_t odd = n - 1;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const std::uint64_t base : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}) {
    std::uint64_t x = power_mod(base, odd, n);
    bool passes = x == 1 || x == n - 1;
    for (int at = 1; at < twos && !passes; ++at) passes = (x = multiply_mod(x, x, n)) == n - 1;
    if (!passes) return false;
  }
  return true;
}

TEST(Field, PrimesArePrimesAndQDividesPMinusOne) {
  EXPECT_TRUE(is_prime(kFieldQ));
  EXPECT_TRUE(is_prime(kFieldP));
  EXPECT_EQ((kFieldP - 1) % kFieldQ, 0u);
  EXPECT_GT(kFieldQ, std::uint64_t{1} << 31);
  EXPECT_FALSE(is_prime(kFieldQ - 2));
}

TEST(Field, TheBaseHasOrderQAndIsDrawn) {
  const Field a(1, 1), b(2, 1), again(1, 9);
  EXPECT_NE(a.base(), 1u);
  EXPECT_EQ(power_mod(a.base(), kFieldQ, kFieldP), 1u);
  EXPECT_NE(a.base(), b.base());
  EXPECT_EQ(a.base(), again.base());
}

struct Laws : testing::Test {
  Field field{7, 8};
  FieldValue x = field.random(), y = field.random(), z = field.random();

  FieldValue of(Op op, FieldValue a) { return field.unary(op, {}, a); }
  FieldValue of(Op op, FieldValue a, FieldValue b) { return field.binary(op, a, b); }
  FieldValue scaled(FieldValue a, double c, std::int64_t count = 1) {
    Attributes attributes;
    attributes.factor = c;
    attributes.count = count;
    return field.unary(Op::kScale, attributes, a);
  }
};

void expect_equal(const FieldValue& a, const FieldValue& b) {
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.p, b.p);
}

TEST_F(Laws, Arithmetic) {
  expect_equal(of(Op::kMul, x, of(Op::kAdd, y, z)), of(Op::kAdd, of(Op::kMul, x, y), of(Op::kMul, x, z)));
  expect_equal(of(Op::kMul, of(Op::kDiv, x, y), y), x);
  expect_equal(of(Op::kAdd, of(Op::kSub, x, y), y), x);
  expect_equal(of(Op::kReciprocal, of(Op::kReciprocal, x)), x);
  expect_equal(of(Op::kSquare, x), of(Op::kMul, x, x));
  EXPECT_NE(of(Op::kSub, x, y).p, of(Op::kSub, y, x).p);
}

TEST_F(Laws, ConstantsAreExact) {
  expect_equal(scaled(scaled(x, 0.125), 8), x);
  expect_equal(scaled(scaled(x, 0.1), 1), of(Op::kMul, x, field.constant(0.1, 1)));
  expect_equal(scaled(scaled(x, 1, 3), 3), x);
  expect_equal(of(Op::kAdd, field.constant(-2.5, 1), field.constant(2.5, 1)), field.zero());
  expect_equal(scaled(field.constant(0x1p-60, 1), 0x1p60), field.constant(1, 1));
  EXPECT_NE(scaled(x, 0.1).p, scaled(x, 1, 10).p) << "0.1 is not a tenth";
}

TEST_F(Laws, ExponentialsTurnSumsIntoProducts) {
  expect_equal(of(Op::kExp, of(Op::kAdd, x, y)), of(Op::kMul, of(Op::kExp, x), of(Op::kExp, y)));
  expect_equal(of(Op::kExp, of(Op::kSub, x, x)), field.constant(1, 1));
  expect_equal(of(Op::kExp2, scaled(x, kLog2E)), of(Op::kExp, x));
  EXPECT_NE(of(Op::kExp, x).p, of(Op::kExp, y).p);
  EXPECT_EQ(of(Op::kExp, x).p, power_mod(field.base(), x.q, kFieldP));
  EXPECT_FALSE(of(Op::kExp, x).has_q);
}

TEST_F(Laws, MaxIsAssociativeAndCommutativeAndNothingElse) {
  expect_equal(field.max(x, field.max(y, z)), field.max(field.max(z, x), y));
  expect_equal(field.max(x, field.lowest()), x);
  EXPECT_EQ(field.max(x, field.lowest()).q, x.q);
  EXPECT_EQ(field.max(x, field.max(y, z)).q, field.max(field.max(z, x), y).q);
  EXPECT_NE(field.max(x, y).p, x.p);
  EXPECT_NE(of(Op::kAdd, field.max(x, y), z).p, field.max(of(Op::kAdd, x, z), of(Op::kAdd, y, z)).p);
}

TEST_F(Laws, FunctionsAreRandomButTheSameForOneSeed) {
  Field same(7, 99), other(8, 8);
  for (const Op op : {Op::kSqrt, Op::kRsqrt, Op::kRelu, Op::kSilu, Op::kGelu, Op::kTanh, Op::kClamp}) {
    expect_equal(of(op, x), same.unary(op, {}, x));
    EXPECT_EQ(of(op, x).q, same.unary(op, {}, x).q);
    EXPECT_NE(of(op, x).p, other.unary(op, {}, x).p) << name(op);
    EXPECT_NE(of(op, x).p, of(op, y).p) << name(op);
  }
  EXPECT_NE(of(Op::kSilu, x).p, of(Op::kGelu, x).p);
  Attributes bounds;
  bounds.high = 5;
  EXPECT_NE(field.unary(Op::kClamp, bounds, x).p, of(Op::kClamp, x).p);
}

TEST_F(Laws, LowestIsWhatAMaskLeaves) {
  const FieldValue lowest = field.lowest();
  expect_equal(of(Op::kExp, lowest), field.zero());
  expect_equal(of(Op::kExp2, lowest), field.zero());
  EXPECT_EQ(of(Op::kSubMax, lowest, lowest).state, FieldState::kLowest);
  expect_equal(of(Op::kSubMax, scaled(lowest, -1), scaled(lowest, -1)), field.zero());
  EXPECT_EQ(of(Op::kAdd, lowest, x).state, FieldState::kLowest);
  EXPECT_EQ(scaled(lowest, 0.5).state, FieldState::kLowest);
  EXPECT_EQ(scaled(lowest, 0).state, FieldState::kUndefined);
  EXPECT_EQ(of(Op::kMul, lowest, x).state, FieldState::kUndefined);
  EXPECT_EQ(of(Op::kSub, x, lowest).state, FieldState::kUndefined);
  EXPECT_EQ(of(Op::kSub, lowest, lowest).state, FieldState::kNan);
  for (const Op op : {Op::kSqrt, Op::kRsqrt, Op::kSilu, Op::kGelu})
    EXPECT_EQ(of(op, lowest).state, FieldState::kNan) << name(op);
}

// As floating-point numbers have it.
TEST_F(Laws, FunctionsOfAnInfinity) {
  const FieldValue lowest = field.lowest(), highest = field.highest();
  expect_equal(of(Op::kRelu, lowest), field.zero());
  EXPECT_EQ(of(Op::kRelu, highest).state, FieldState::kHighest);
  expect_equal(of(Op::kTanh, lowest), field.constant(-1, 1));
  expect_equal(of(Op::kTanh, highest), field.constant(1, 1));
  expect_equal(of(Op::kReciprocal, lowest), field.zero());
  EXPECT_EQ(of(Op::kSquare, lowest).state, FieldState::kHighest);
  Attributes bounds;
  bounds.low = -3;
  expect_equal(field.unary(Op::kClamp, bounds, lowest), field.constant(-3, 1));
  EXPECT_EQ(field.unary(Op::kClamp, bounds, highest).state, FieldState::kHighest);
}

TEST_F(Laws, HighestTakenOffIsLowest) {
  const FieldValue lowest = field.lowest(), highest = field.highest();
  EXPECT_EQ(scaled(lowest, -1).state, FieldState::kHighest);
  EXPECT_EQ(of(Op::kSub, x, highest).state, FieldState::kLowest);
  EXPECT_EQ(of(Op::kSub, lowest, highest).state, FieldState::kLowest);
  EXPECT_EQ(of(Op::kSub, highest, highest).state, FieldState::kNan);
  EXPECT_EQ(of(Op::kAdd, highest, x).state, FieldState::kHighest);
  EXPECT_EQ(of(Op::kAdd, highest, lowest).state, FieldState::kUndefined);
  EXPECT_EQ(of(Op::kExp, highest).state, FieldState::kUndefined);
  EXPECT_EQ(field.max(x, highest).state, FieldState::kUndefined);
}

TEST_F(Laws, DivisionByZero) {
  EXPECT_EQ(of(Op::kDiv, x, field.zero()).state, FieldState::kNan);
  expect_equal(of(Op::kNormalize, x, field.zero()), field.zero());
  expect_equal(of(Op::kNormalize, x, y), of(Op::kDiv, x, y));
}

TEST_F(Laws, RunningMaximaAreFree) {
  EXPECT_NE(field.running_max(x, y).p, field.running_max(x, y).p);
  Field other(7, 9);
  EXPECT_NE(other.running_max(x, y).p, Field(7, 8).running_max(x, y).p);
  EXPECT_EQ(field.running_max(x, field.lowest()).state, FieldState::kNumber);
  EXPECT_EQ(field.running_max(field.lowest(), field.lowest()).state, FieldState::kLowest) << "it has seen nothing";
}

}  // namespace
}  // namespace gqa

// field.cc: see field.h.
#include "search/graph/prove/field.h"

#include <xxhash.h>

#include <bit>
#include <cmath>

namespace gqa {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kP = kFieldP, kQ = kFieldQ;
constexpr int kHalf = 31, kPermutationRounds = 6;  // of the permutation of 62-bit numbers
constexpr std::uint64_t kHalfMask = (std::uint64_t{1} << kHalf) - 1;

std::uint64_t add_mod(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
  const std::uint64_t sum = a + b;  // both under 2^62
  return sum >= modulus ? sum - modulus : sum;
}

std::uint64_t negate_mod(std::uint64_t a, std::uint64_t modulus) { return a == 0 ? 0 : modulus - a; }

std::uint64_t inverse_mod(std::uint64_t a, std::uint64_t modulus) { return power_mod(a, modulus - 2, modulus); }

template <typename... Words>
std::uint64_t keyed_hash(std::uint64_t key, Words... words) {
  const std::uint64_t packed[] = {static_cast<std::uint64_t>(words)...};
  return XXH3_64bits_withSeed(packed, sizeof(packed), key);
}

FieldValue state(FieldState found) { return {0, 0, found, false}; }
FieldValue number(std::uint64_t p, std::uint64_t q, bool has_q) {
  return {p, has_q ? q : 0, FieldState::kNumber, has_q};
}
bool is(const FieldValue& x, FieldState which) { return x.state == which; }

FieldValue add(const FieldValue& a, const FieldValue& b) {
  return number(add_mod(a.p, b.p, kP), add_mod(a.q, b.q, kQ), a.has_q && b.has_q);
}
FieldValue negate(const FieldValue& a) { return number(negate_mod(a.p, kP), negate_mod(a.q, kQ), a.has_q); }
FieldValue multiply(const FieldValue& a, const FieldValue& b) {
  const bool has_q = a.has_q && b.has_q;
  return number(multiply_mod(a.p, b.p, kP), has_q ? multiply_mod(a.q, b.q, kQ) : 0, has_q);
}
FieldValue divide(const FieldValue& a, const FieldValue& b) {
  if (b.p == 0) return state(FieldState::kNan);
  const bool has_q = a.has_q && b.has_q && b.q != 0;
  return multiply(a, number(inverse_mod(b.p, kP), has_q ? inverse_mod(b.q, kQ) : 0, has_q));
}

bool is_infinite(const FieldValue& x) { return is(x, FieldState::kLowest) || is(x, FieldState::kHighest); }
FieldValue opposite(const FieldValue& x) {
  return state(is(x, FieldState::kLowest) ? FieldState::kHighest : FieldState::kLowest);
}

// a + b where one is infinite.
FieldValue add_infinite(const FieldValue& a, const FieldValue& b) {
  if (!is_infinite(b)) return a;
  return !is_infinite(a) || a.state == b.state ? b : state(FieldState::kUndefined);
}

// a − b: an infinity minus a number is itself; sub_max keeps −inf whatever is taken from it, and gives 0 for +inf
// minus itself. A number minus −inf is what no exponential bears.
FieldValue subtract(Op op, const FieldValue& a, const FieldValue& b) {
  if (is(a, FieldState::kLowest) && op == Op::kSubMax) return a;
  if (is(a, FieldState::kHighest) && is(b, FieldState::kHighest) && op == Op::kSubMax) return FieldValue();
  if (is_infinite(a)) return a.state == b.state ? state(FieldState::kNan) : a;
  if (is_infinite(b)) return is(b, FieldState::kHighest) ? opposite(b) : state(FieldState::kUndefined);
  return add(a, negate(b));
}

// A fraction mod a prime, exactly.
std::uint64_t fraction_mod(double factor, std::int64_t count, std::uint64_t modulus) {
  int exponent = 0;
  const double mantissa = std::frexp(std::abs(factor), &exponent);
  const auto digits = static_cast<std::uint64_t>(std::ldexp(mantissa, 53));
  const std::uint64_t two = exponent >= 53 ? 2 : inverse_mod(2, modulus);
  const std::uint64_t scale = power_mod(two, static_cast<std::uint64_t>(std::abs(exponent - 53)), modulus);
  const std::uint64_t value = multiply_mod(digits % modulus, scale, modulus);
  const std::uint64_t size = inverse_mod(static_cast<std::uint64_t>(count) % modulus, modulus);
  const std::uint64_t whole = multiply_mod(value, size, modulus);
  return factor < 0 ? negate_mod(whole, modulus) : whole;
}

}  // namespace

std::uint64_t multiply_mod(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b % modulus);
}

std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus) {
  std::uint64_t result = 1;
  for (; exponent; exponent >>= 1, base = multiply_mod(base, base, modulus)) {
    if (exponent & 1) result = multiply_mod(result, base, modulus);
  }
  return result;
}

Field::Field(std::uint64_t seed, std::uint64_t free_seed)
    : key_(keyed_hash(seed, 1)), free_key_(keyed_hash(free_seed, 2)) {
  // The squares mod p = 2q + 1, but for 0 and 1, are what has order q.
  for (std::uint64_t trial = 0; base_ <= 1; ++trial) {
    const std::uint64_t root = keyed_hash(seed, 3, trial) % kP;
    base_ = multiply_mod(root, root, kP);
  }
  std::uint64_t step = base_;
  for (auto& window : powers_) {
    window[0] = 1;
    for (std::size_t digit = 1; digit < window.size(); ++digit)
      window[digit] = multiply_mod(window[digit - 1], step, kP);
    step = multiply_mod(window.back(), step, kP);
  }
}

std::uint64_t Field::next() { return keyed_hash(free_key_, ++counter_); }

FieldValue Field::random() {
  const std::uint64_t p = next() % kP;
  return number(p, next() % kQ, true);
}

FieldValue Field::constant(double factor, std::int64_t count) {
  const auto [found, is_new] = constants_.try_emplace({factor, count});
  if (is_new) found->second = number(fraction_mod(factor, count, kP), fraction_mod(factor, count, kQ), true);
  return found->second;
}

std::uint64_t Field::power_of_base(std::uint64_t exponent) const {
  std::uint64_t power = 1;
  for (std::size_t at = 0; exponent; ++at, exponent >>= kWindow)
    power = multiply_mod(power, powers_[at][exponent & ((1u << kWindow) - 1)], kP);
  return power;
}

FieldValue Field::exp(const FieldValue& x) const {
  return x.has_q ? number(power_of_base(x.q), 0, false) : function(Op::kExp, {}, x.p);
}

FieldValue Field::function(Op op, const Attributes& attributes, std::uint64_t x) const {
  const auto kind = static_cast<std::uint64_t>(op);
  const std::uint64_t bounds =
      keyed_hash(key_, std::bit_cast<std::uint64_t>(attributes.low), std::bit_cast<std::uint64_t>(attributes.high));
  return number(keyed_hash(key_, kind, bounds, x, 0) % kP, keyed_hash(key_, kind, bounds, x, 1) % kQ, true);
}

FieldValue Field::unary(Op op, const Attributes& attributes, const FieldValue& x) {
  if (is(x, FieldState::kNan) || is(x, FieldState::kUndefined)) return x;
  if (is_infinite(x)) return unary_of_infinite(op, attributes, x);
  switch (op) {
    case Op::kExp:
      return exp(x);
    case Op::kExp2:
      return exp(divide(x, constant(kLog2E, 1)));
    case Op::kScale:
      return multiply(x, constant(attributes.factor, attributes.count));
    case Op::kAddConstant:
      return add(x, constant(attributes.factor, 1));
    case Op::kSquare:
      return multiply(x, x);
    case Op::kReciprocal:
      return divide(constant(1, 1), x);
    default:
      return function(op, attributes, x.p);
  }
}

FieldValue Field::unary_of_infinite(Op op, const Attributes& attributes, const FieldValue& x) {
  switch (op) {
    case Op::kExp:
    case Op::kExp2:
      return is(x, FieldState::kLowest) ? zero() : state(FieldState::kUndefined);
    case Op::kScale:
      if (attributes.factor == 0) return state(FieldState::kUndefined);
      return attributes.factor > 0 ? x : opposite(x);
    case Op::kAddConstant:
      return x;
    case Op::kReciprocal:
      return zero();
    case Op::kSquare:
      return highest();
    case Op::kTanh:
      return constant(is(x, FieldState::kLowest) ? -1 : 1, 1);
    case Op::kRelu:
      return is(x, FieldState::kLowest) ? zero() : x;
    case Op::kClamp:
      return bound_of(attributes, x);
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kSilu:
    case Op::kGelu:
      return is(x, FieldState::kLowest) ? state(FieldState::kNan) : state(FieldState::kUndefined);
    default:
      return state(FieldState::kUndefined);
  }
}

// The bound that stops an infinity, or it where none does.
FieldValue Field::bound_of(const Attributes& attributes, const FieldValue& x) {
  const double bound = is(x, FieldState::kLowest) ? attributes.low : attributes.high;
  return std::isinf(bound) ? x : constant(bound, 1);
}

FieldValue Field::binary(Op op, const FieldValue& a, const FieldValue& b) const {
  for (const FieldState bad : {FieldState::kUndefined, FieldState::kNan}) {
    if (is(a, bad) || is(b, bad)) return state(bad);
  }
  const bool infinite = is_infinite(a) || is_infinite(b);
  switch (op) {
    case Op::kAdd:
      return infinite ? add_infinite(a, b) : add(a, b);
    case Op::kSub:
    case Op::kSubMax:
      return subtract(op, a, b);
    case Op::kMul:
      return infinite ? state(FieldState::kUndefined) : multiply(a, b);
    case Op::kNormalize:
      if (!infinite && b.p == 0) return zero();
      [[fallthrough]];
    case Op::kDiv:
      return infinite ? state(FieldState::kUndefined) : divide(a, b);
    default:
      return state(FieldState::kUndefined);
  }
}

void Field::multiply_add(FieldValue& sum, const FieldValue& a, const FieldValue& b) const {
  sum = binary(Op::kAdd, sum, binary(Op::kMul, a, b));
}

FieldValue Field::max(const FieldValue& a, const FieldValue& b) const {
  for (const FieldState bad : {FieldState::kUndefined, FieldState::kNan}) {
    if (is(a, bad) || is(b, bad)) return state(bad);
  }
  if (is(a, FieldState::kHighest) || is(b, FieldState::kHighest)) return state(FieldState::kUndefined);
  if (is(a, FieldState::kLowest)) return b;
  if (is(b, FieldState::kLowest)) return a;
  const std::uint64_t p = permute_back(add_mod(permute(a.p), permute(b.p), kP));
  return number(p, keyed_hash(key_, 4, p) % kQ, true);
}

// A Feistel network on 62 bits, walked until it comes back under p.
std::uint64_t Field::permute(std::uint64_t x) const {
  do {
    std::uint64_t high = x >> kHalf, low = x & kHalfMask;
    for (int round = 0; round < kPermutationRounds; ++round) {
      high ^= keyed_hash(key_, 5, round, low) & kHalfMask;
      std::swap(high, low);
    }
    x = high << kHalf | low;
  } while (x >= kP);
  return x;
}

std::uint64_t Field::permute_back(std::uint64_t x) const {
  do {
    std::uint64_t high = x >> kHalf, low = x & kHalfMask;
    for (int round = kPermutationRounds - 1; round >= 0; --round) {
      std::swap(high, low);
      high ^= keyed_hash(key_, 5, round, low) & kHalfMask;
    }
    x = high << kHalf | low;
  } while (x >= kP);
  return x;
}

}  // namespace gqa

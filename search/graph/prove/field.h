// field.h: numbers in which a graph's identity can be proved by trying it.
// Owns: the primes p and q with q | p − 1, arithmetic mod each, FieldValue and Field, an algebra (operators.h) over
// them.
// Never: compares graphs (equivalence.h does).
// Threads: one Field a thread.
//
// A value is known mod p and, as long as it has not been through an exponential, mod q too. exp takes what is known mod
// q to a power of a base ω of order q mod p, so exp(a + b) = exp(a) exp(b) holds exactly. Functions with no such law
// (sqrt, rsqrt, relu, silu, gelu, tanh, clamp, and exp of an exponential) are random functions: a keyed hash of their
// argument, as floating-point numbers have it where that is infinite (tanh 1, sqrt of −inf NaN). max is a random
// associative, commutative operation: addition seen through a random permutation. A running maximum is a random number,
// new for each step: what it is compared with must not depend on it; of nothing but −inf it is −inf.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "search/graph/ir/op.h"

namespace gqa {

inline constexpr std::uint64_t kFieldQ = 2305843009213688669;  // prime, just under 2^61
inline constexpr std::uint64_t kFieldP = 2 * kFieldQ + 1;      // prime

std::uint64_t multiply_mod(std::uint64_t a, std::uint64_t b, std::uint64_t modulus);
std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus);

enum class FieldState : std::uint8_t {
  kNumber,
  kLowest,     // −inf, what a mask leaves; exp gives 0, max passes it over
  kHighest,    // inf: of a mask that is subtracted, which leaves −inf
  kNan,        // a division by zero
  kUndefined,  // −inf where no rule says what it gives: nothing can be proved
};

struct FieldValue {
  std::uint64_t p = 0, q = 0;
  FieldState state = FieldState::kNumber;
  bool has_q = true;  // false: only known mod p
};

class Field {
 public:
  using Value = FieldValue;

  // Equal seeds: the same base and random functions. free_seed: the running maxima.
  Field(std::uint64_t seed, std::uint64_t free_seed);

  Value random();  // known mod p and q
  Value zero() const { return {}; }
  Value lowest() const { return {0, 0, FieldState::kLowest, true}; }
  Value highest() const { return {0, 0, FieldState::kHighest, true}; }
  Value constant(double factor, std::int64_t count);  // exactly: a double is a fraction
  Value unary(Op op, const Attributes& attributes, const Value& x);
  Value binary(Op op, const Value& a, const Value& b) const;
  void multiply_add(Value& sum, const Value& a, const Value& b) const;
  Value max(const Value& a, const Value& b) const;
  Value running_max(const Value& before, const Value& x) {  // of nothing but -inf it is -inf; else any number
    return before.state == FieldState::kLowest && x.state == FieldState::kLowest ? x : random();
  }
  void settle(Value*, std::int64_t, ElementType) const {}

  std::uint64_t base() const { return base_; }

 private:
  std::uint64_t next();
  Value exp(const Value& x) const;
  Value unary_of_infinite(Op op, const Attributes& attributes, const Value& x);
  Value bound_of(const Attributes& attributes, const Value& x);
  std::uint64_t power_of_base(std::uint64_t exponent) const;
  Value function(Op op, const Attributes& attributes, std::uint64_t x) const;
  std::uint64_t permute(std::uint64_t x) const;
  std::uint64_t permute_back(std::uint64_t x) const;

  static constexpr int kWindow = 8, kWindows = 8;  // 64 bits of exponent, 8 at a time

  std::uint64_t key_, counter_ = 0, free_key_, base_ = 0;
  std::array<std::array<std::uint64_t, 1 << kWindow>, kWindows> powers_;  // [w][d]: base^(d 256^w)
  std::map<std::pair<double, std::int64_t>, Value> constants_;
};

}  // namespace gqa

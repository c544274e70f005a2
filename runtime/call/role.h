// role.h: every tensor that a caller can hand in.
// Owns: Role, and Roles, a set of them.
// Never: says what a role is: the table does (roles.h), which knows the C interface; kernels and their trials need not.
// Threads: constants and values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gqa {

// In the order in which a call's tensors are checked.
enum class Role : std::uint8_t {
  kQ,
  kQStarts,
  kK,
  kV,
  kOut,
  kLse,
  kKStarts,
  kKvLengths,
  kPageTable,
  kQLengths,
  kSink,
  kScoreScale,
  kBias,
  kNewK,
  kNewV,
  kNewStarts,
  kCos,
  kSin,
  kRotaryStarts,
  kBatchIdx,
  kLeftpad,
};
constexpr std::size_t index_of(Role role) { return static_cast<std::size_t>(role); }
inline constexpr std::size_t kRoleCount = index_of(Role::kLeftpad) + 1;  // the last one

// A set of roles; iterated in their order.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(Role role) : bits_(std::uint32_t{1} << index_of(role)) {}  // NOLINT: a role is a set of one
  constexpr bool has(Role role) const { return (bits_ >> index_of(role) & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }
  constexpr Roles operator|(Roles other) const { return Roles(bits_ | other.bits_); }
  constexpr Roles operator&(Roles other) const { return Roles(bits_ & other.bits_); }
  constexpr Roles without(Roles other) const { return Roles(bits_ & ~other.bits_); }
  constexpr bool operator==(const Roles&) const = default;

  class Iterator {
   public:
    explicit constexpr Iterator(std::uint32_t bits) : bits_(bits) {}
    constexpr Role operator*() const { return static_cast<Role>(std::countr_zero(bits_)); }
    constexpr Iterator& operator++() {
      bits_ &= bits_ - 1;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::uint32_t bits_;
  };
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }

 private:
  friend constexpr Roles roles_from(Role first);
  explicit constexpr Roles(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

// It and those after it.
constexpr Roles roles_from(Role first) {
  return Roles(((std::uint32_t{1} << kRoleCount) - 1) >> index_of(first) << index_of(first));
}

// Those that come with an append, and what places sequences in the cache: from kNewK on.
inline constexpr Roles kAppendedRoles = roles_from(Role::kNewK);

}  // namespace gqa

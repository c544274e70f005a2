// kind_set.h: a set of an enum's values.
// Owns: KindSet. Never: knows an enum. Threads: values.
#pragma once

#include <initializer_list>

namespace gqa {

template <typename Kind>
class KindSet {
 public:
  constexpr KindSet() = default;
  constexpr KindSet(std::initializer_list<Kind> kinds) {
    for (const Kind kind : kinds) bits_ |= bit(kind);
  }
  constexpr bool has(Kind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr KindSet with(Kind kind) const {
    KindSet more = *this;
    more.bits_ |= bit(kind);
    return more;
  }
  constexpr KindSet without(Kind kind) const {
    KindSet rest = *this;
    rest.bits_ &= ~bit(kind);
    return rest;
  }

 private:
  static constexpr unsigned bit(Kind kind) { return 1u << static_cast<unsigned>(kind); }
  unsigned bits_ = 0;
};

}  // namespace gqa

// views.h: where a call's tensors lie.
// Owns: Views, a View for each role, packed tensors with a batch of 1; that what is written overlaps neither itself nor
// anything that is read.
// Never: checks dtypes or sizes; check_elements() and Sizes have.
// Threads: a value; nothing is allocated unless it is refused.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/api/args/operands.h"
#include "runtime/call/roles.h"
#include "runtime/call/view.h"
#include "search/status.h"

namespace gqa {

// What a tensor that is written must be apart from: what is written and is no cache from all that a call has, a cache
// from what is appended to it.
constexpr Roles apart_from(Role written) {
  switch (row_of(written).access) {
    case Access::kWrite:
      return kAllRoles.without(written == Role::kLse ? Roles(written) : kWrittenRoles);  // of two one is enough
    case Access::kAppend:
      return kAppendedRoles;
    case Access::kRead:
      break;
  }
  return {};
}

// What a call writes; `appended`: into its cache, too.
constexpr Roles written_roles(bool appended) { return appended ? kWrittenRoles | kCacheRoles : kWrittenRoles; }

class Views {
 public:
  // Those without a row touch nothing: their views are empty.
  Status read(const Operands& operands, Roles rowless);
  // `appended`: keys and values are written, too.
  Status check_written(const Operands& operands, bool appended) const;

  View& operator[](Role role) { return views_[index_of(role)]; }
  const View& operator[](Role role) const { return views_[index_of(role)]; }
  template <typename Type>
  const Type* data(Role role) const {
    return reinterpret_cast<const Type*>((*this)[role].data);
  }

 private:
  std::array<View, kRoleCount> views_{};
};

// Strides of a call's tensor by what its dimensions count: in its form, or, of a packed one with a batch, in the plain
// one.
Strides strides_of(const View& view, const Form& form, const Form& plain);

}  // namespace gqa

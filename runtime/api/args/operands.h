// operands.h: the tensors of one call, by role.
// Owns: which tensors a caller handed in, the form that each should have beside the others, and the rules about each
// by itself.
// Never: reads a tensor's numbers, or compares two tensors (sizes.h, views.h).
// Threads: a value; nothing is allocated unless it is refused.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "runtime/api/gqa.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/call/roles.h"
#include "runtime/device.h"
#include "search/status.h"

namespace gqa {

class Operands {
 public:
  // options: null, or at least as large as today's.
  Operands(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out, const gqa_call* options) {
    set<Role::kQ>(q);
    set<Role::kK>(k);
    set<Role::kV>(v);
    set<Role::kOut>(out);
    if (options != nullptr) set_fields(*options, std::make_index_sequence<kRoleCount>());
  }

  Roles present() const { return present_; }
  bool has(Role role) const { return present_.has(role); }
  const DLTensor* at(Role role) const { return has(role) ? tensors_[index_of(role)] : nullptr; }
  const DLTensor& operator[](Role role) const { return *tensors_[index_of(role)]; }
  void leave_out(Roles roles) { present_ = present_.without(roles); }

  // Whether it comes in its row's packed form: by a list of starts, and a factor by its rank, since one of heads alone
  // serves both.
  bool packed(Role role) const {
    const RoleRow& row = row_of(role);
    return row.packed_by == role ? at(role)->ndim == row.packed.rank : has(row.packed_by);
  }
  const Form& form(Role role) const {
    const RoleRow& row = row_of(role);
    if (row.packed.rank != 0 && packed(role)) return row.packed;
    return row.paged.rank != 0 && has(Role::kPageTable) ? row.paged : row.plain;
  }
  Expected expected(Role role) const { return {row_of(role).name, form(role)}; }
  bool any_packed() const { return has(Role::kQStarts) || has(Role::kKStarts); }

 private:
  // One by one, since each hit passes here: offsets are constants then.
  template <std::size_t... At>
  void set_fields(const gqa_call& options, std::index_sequence<At...>) {
    (set_field<kRoles[At].role>(options), ...);
  }
  template <Role role>
  void set_field(const gqa_call& options) {
    constexpr std::size_t offset = row_of(role).field;
    if constexpr (offset != 0)
      set<role>(*reinterpret_cast<const DLTensor* const*>(reinterpret_cast<const char*>(&options) + offset));
  }
  template <Role role>
  void set(const DLTensor* tensor) {
    tensors_[index_of(role)] = tensor;
    if (tensor != nullptr) present_ = present_ | role;
  }

  Roles present_;
  std::array<const DLTensor*, kRoleCount> tensors_;  // of those present
};

// What every call has.
inline constexpr Roles kRequiredRoles = Roles(Role::kQ) | Role::kK | Role::kV | Role::kOut;

// That q, k, v and out are there, and that all of these have a shape.
Status check_present(const Operands& operands, Roles roles);

// Whether a tensor of rows, in a batch or packed, has none.
bool has_no_row(const DLTensor& tensor);
// Whether a list of starts, or null, names no sequence: where the first would begin, and nothing else.
bool has_no_sequence(const DLTensor* starts);

// Whether the call does anything before it attends; whether it brings a new key. After check_present().
bool appends(const Operands& operands);
bool adds_keys(const Operands& operands);

// Ranks, dtypes, devices and sizes. Those without a row, `rowless`, may have 0 of what counts rows.
Status check_elements(const Device& device, const Operands& operands, Roles rowless);

// kDtype: q is of no type that attention has.
Status check_type(const DLTensor& q, ElementType* dtype);

}  // namespace gqa

// views.cc: see views.h.
#include "runtime/api/args/views.h"

#include "runtime/api/tensors/tensor_rules.h"

namespace gqa {

Status Views::read(const Operands& operands, Roles rowless) {
  for (const Role role : operands.present().without(rowless)) {
    View& view = (*this)[role];
    if (Status status = read_view(operands.expected(role), operands[role], &view); !status.ok()) return status;
    const RoleRow& row = row_of(role);
    if (row.packed.rank != 0 && row.packed_by != role && operands.packed(role)) view = view.with_batch();
  }
  return {};
}

Status Views::check_written(const Operands& operands, bool appended) const {
  for (const Role to : operands.present() & written_roles(appended)) {
    const View& view = (*this)[to];
    if (view.data == 0) continue;
    if (Status status = check_distinct(view); !status.ok()) return status;
    for (const Role from : operands.present() & apart_from(to))
      if (Status status = check_apart(view, (*this)[from]); !status.ok()) return status;
  }
  return {};
}

}  // namespace gqa

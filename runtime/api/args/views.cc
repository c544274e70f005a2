// views.cc: see views.h.
#include "runtime/api/args/views.h"

#include "runtime/api/tensors/tensor_rules.h"

namespace gqa {
namespace {

// Which stride steps along it; null: none that a call tells.
std::int64_t* stride_along(Dim dim, Strides* strides) {
  switch (dim) {
    case Dim::kBatch:
    case Dim::kCacheBatch:
    case Dim::kPages:
      return &strides->batch;
    case Dim::kQLen:
    case Dim::kKvLen:
    case Dim::kPage:
    case Dim::kNew:
    case Dim::kPositions:
      return &strides->row;
    case Dim::kQHeads:
    case Dim::kKvHeads:
      return &strides->head;
    default:
      return nullptr;
  }
}

}  // namespace

Strides strides_of(const View& view, const Form& form, const Form& plain) {
  const Form& of = view.rank == form.rank ? form : plain;
  const int stepped = of.contiguous != nullptr ? of.rank - 1 : of.rank;
  Strides strides;
  for (int at = 0; at < stepped; ++at) {
    const auto dim = static_cast<std::size_t>(at);
    if (std::int64_t* stride = stride_along(of.sizes[dim].dim, &strides)) *stride = view.stride[dim];
  }
  return strides;
}

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

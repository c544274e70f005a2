// operands.cc: see operands.h.
#include "runtime/api/args/operands.h"

#include "runtime/api/tensors/dtype.h"

namespace gqa {
namespace {

constexpr DLDataType kInt32 = {kDLInt, 32, 1};

struct ExpectedType {
  DLDataType type;
  const char* why;
};

ExpectedType expected_type(Elements elements, const DLTensor& tensor, const DLTensor& q) {
  switch (elements) {
    case Elements::kF32:
      return {kFloat32, ", expected "};
    case Elements::kI32:
      return {kInt32, ", expected "};
    case Elements::kF32OrOfQ:
      if (same(tensor.dtype, kFloat32) || same(q.dtype, kFloat32)) return {kFloat32, ", expected "};
      return {q.dtype, ", expected float32 or, as q, "};
    case Elements::kOfQ:
      break;
  }
  return {q.dtype, ", but q is "};
}

}  // namespace

Status check_present(const Operands& operands, Roles roles) {
  for (const Role role : roles)
    if (Status status = check_present(operands.expected(role), operands.at(role)); !status.ok()) return status;
  return {};
}

bool has_no_row(const DLTensor& tensor) {
  if ((tensor.ndim != 3 && tensor.ndim != 4) || tensor.shape == nullptr) return false;
  return tensor.shape[0] == 0 || (tensor.ndim == 4 && tensor.shape[1] == 0);
}

bool has_no_sequence(const DLTensor* starts) {
  return starts != nullptr && starts->ndim == 1 && starts->shape != nullptr && starts->shape[0] == 1;
}

bool appends(const Operands& operands) { return !(operands.present() & kAppendedRoles).empty(); }
bool adds_keys(const Operands& operands) { return operands.has(Role::kNewK) && !has_no_row(operands[Role::kNewK]); }

Status check_type(const DLTensor& q, ElementType* dtype) {
  if (is_element(q.dtype, dtype)) return {};
  return {Code::kDtype, "q is " + dtype_text(q.dtype) + ", expected float32, float16 or bfloat16: cast it"};
}

Status check_elements(const Device& device, const Operands& operands, Roles rowless) {
  const DLTensor& q = operands[Role::kQ];
  ElementType dtype{};
  if (Status status = check_rank(operands.expected(Role::kQ), q); !status.ok()) return status;
  if (Status status = check_type(q, &dtype); !status.ok()) return status;
  for (const Role role : operands.present()) {
    const DLTensor& tensor = operands[role];
    const auto [type, why] = expected_type(row_of(role).elements, tensor, q);
    Status status = check_tensor(device, operands.expected(role), tensor, type, why, rowless.has(role));
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace gqa

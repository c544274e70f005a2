// dtype.cc: see dtype.h.
#include "runtime/api/tensors/dtype.h"

namespace gqa {

std::string dtype_text(DLDataType type) {
  const char* kinds[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string kind = type.code < 7 ? kinds[type.code] : "dtype code " + std::to_string(type.code) + ", bits ";
  return kind + std::to_string(type.bits) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

bool is_half(DLDataType type, DType* dtype) {
  *dtype = type.code == kDLBfloat ? DType::kBF16 : DType::kF16;
  return (type.code == kDLFloat || type.code == kDLBfloat) && type.bits == 16 && type.lanes == 1;
}

DLDataType dl_type(ElementType type) {
  constexpr DLDataType kTypes[] = {{kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}};
  return kTypes[static_cast<int>(type)];
}

Status element_type(const std::string& what, DLDataType given, ElementType* type) {
  for (const ElementType known : kElementTypes) {
    if (!same(given, dl_type(known))) continue;
    *type = known;
    return {};
  }
  return {Code::kDtype, what + " of dtype " + dtype_text(given) + ", expected float16, bfloat16 or float32"};
}

}  // namespace gqa

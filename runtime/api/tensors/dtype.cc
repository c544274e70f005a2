// dtype.cc: see dtype.h.
#include "runtime/api/tensors/dtype.h"

#include <iterator>

namespace gqa {
namespace {

// By DLPack's code: what is followed by a width, and then, from kBool on, what has one width only.
constexpr const char* kKinds[] = {"int", "uint", "float", "handle", "bfloat", "complex"};
constexpr int kBool = static_cast<int>(std::size(kKinds));
constexpr const char* kWhole[] = {"bool",           "float8_e3m4",     "float8_e4m3",   "float8_e4m3b11fnuz",
                                  "float8_e4m3fn",  "float8_e4m3fnuz", "float8_e5m2",   "float8_e5m2fnuz",
                                  "float8_e8m0fnu", "float6_e2m3fn",   "float6_e3m2fn", "float4_e2m1fn"};

std::string element_text(DLDataType type) {
  if (type.code < kBool) return kKinds[type.code] + std::to_string(type.bits);
  const auto at = static_cast<std::size_t>(type.code - kBool);
  if (at < std::size(kWhole)) return kWhole[at];
  return "dtype code " + std::to_string(type.code) + ", bits " + std::to_string(type.bits);
}

}  // namespace

std::string dtype_text(DLDataType type) {
  return element_text(type) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

DLDataType dl_type(ElementType type) {
  constexpr DLDataType kTypes[] = {{kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}};
  return kTypes[static_cast<int>(type)];
}

bool is_element(DLDataType given, ElementType* type) {
  for (const ElementType known : kElementTypes) {
    if (!same(given, dl_type(known))) continue;
    *type = known;
    return true;
  }
  return false;
}

Status element_type(const std::string& what, DLDataType given, ElementType* type) {
  if (is_element(given, type)) return {};
  return {Code::kDtype, what + " of dtype " + dtype_text(given) + ", expected float16, bfloat16 or float32"};
}

}  // namespace gqa

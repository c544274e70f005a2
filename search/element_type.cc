// element_type.cc: see element_type.h.
#include "search/element_type.h"

#include "search/text.h"

namespace gqa {

std::string_view name(ElementType type) {
  constexpr std::string_view kNames[] = {"f16", "bf16", "f32"};
  return kNames[static_cast<int>(type)];
}

Status parse(std::string_view text, ElementType* type) {
  for (const ElementType known : kElementTypes) {
    if (text != name(known)) continue;
    *type = known;
    return {};
  }
  return Status(Code::kDtype, "unknown element type " + quote(text) + ": expected f16, bf16 or f32");
}

}  // namespace gqa

// type_text.cc: see type_text.h.
#include "jit/type_text.h"

namespace gqa {

std::string type_text(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return "gqa::F16";
    case ElementType::kBF16:
      return "gqa::BF16";
    case ElementType::kF32:
      break;
  }
  return "gqa::F32";
}

}  // namespace gqa

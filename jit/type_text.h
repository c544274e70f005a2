// type_text.h: an element type as the device's code names it (jit/device/ptx/element.cuh).
// Owns: the names.
// Never: knows what is generated.
// Threads: pure functions.
#pragma once

#include <string>

#include "search/element_type.h"

namespace gqa {

std::string type_text(ElementType type);  // "gqa::BF16"

}  // namespace gqa

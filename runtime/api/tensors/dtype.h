// dtype.h: DLPack's data types and the library's own.
// Owns: the names of data types in messages, and which of them a graph's tensors may have.
// Never: looks at a tensor.
// Threads: pure functions.
#pragma once

#include <dlpack/dlpack.h>

#include <string>

#include "search/graph/ir/tensor.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

inline constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

std::string dtype_text(DLDataType type);  // "float16", "bfloat16", "int8x4", ...
bool same(DLDataType a, DLDataType b);

bool is_element(DLDataType given, ElementType* type);  // float16, bfloat16 or float32

// kDtype for anything but float16, bfloat16 and float32; `what` begins the message: "an input".
Status element_type(const std::string& what, DLDataType given, ElementType* type);
DLDataType dl_type(ElementType type);

}  // namespace gqa

// element_type.h: the types of tensors' elements.
// Owns: ElementType, its names, its bytes.
// Never: converts a number; runtime/element.h does.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "search/status.h"

namespace gqa {

enum class ElementType : std::uint8_t { kF16, kBF16, kF32 };
inline constexpr ElementType kElementTypes[] = {ElementType::kF16, ElementType::kBF16, ElementType::kF32};

std::string_view name(ElementType type);  // "f16", "bf16", "f32"
Status parse(std::string_view text, ElementType* type);
constexpr int element_bytes(ElementType type) { return type == ElementType::kF32 ? 4 : 2; }

}  // namespace gqa

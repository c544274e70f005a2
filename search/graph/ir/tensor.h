// tensor.h: what a graph knows of a tensor: its dimensions, element type and strides.
// Owns: Dims, TensorSpec and the arithmetic on them.
// Never: holds data.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/element_type.h"
#include "search/status.h"

namespace gqa {

using Dims = std::vector<std::int64_t>;

struct TensorSpec {
  Dims dims;
  ElementType type = ElementType::kF16;
  Dims strides = {};  // in elements; empty: row-major without gaps
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

inline constexpr std::size_t kMostDims = 8;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::int64_t elements(const Dims& dims);    // 1 for rank 0
Dims row_major_strides(const Dims& dims);   // without gaps
Dims strides_of(const TensorSpec& tensor);  // its own, or row-major
std::string to_text(const Dims& dims);      // "[2,256,64]"

// Rank 1 to kMostDims, positive sizes, at most kMostElements; strides, where given, one a dimension and not negative.
// Strides that are row-major without gaps are dropped, so that equal layouts compare equal.
Status check(TensorSpec* tensor);

// The type of a result: all alike keep theirs, float32 wins over a 16-bit type, float16 does not mix with bfloat16.
Status common_type(const std::vector<ElementType>& types, ElementType* common);

}  // namespace gqa

// tile_text.h: the small texts that tile kernels are written with.
// Owns: numbers, an operator on given operands, indices taken apart and put together.
// Never: knows a plan or a graph.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/graph/ir/op.h"

namespace gqa {

// One expression a dimension; "0" where there is but one place.
using TileIndex = std::vector<std::string>;

std::string number_text(double value);  // of type float

// An elementwise operator on one element of each operand.
std::string operation_text(Op op, const Attributes& attributes, const std::vector<std::string>& operands);
// A mask's element at (row, column) of a value of rows x columns.
std::string mask_text(const Attributes& attributes, const std::string& row, const std::string& column,
                      std::int64_t rows, std::int64_t columns, const std::string& x);

// Declares i0, i1, ... for the flat index `from` over dims; `*index` is what they are called. wide: 64-bit ones.
std::string split_index(const std::string& from, const Dims& dims, TileIndex* index, bool wide = false);
// index . strides, "0" where it is nothing. wide: computed in 64 bits.
std::string join_index(const TileIndex& index, const Dims& strides, bool wide = false);
// The row of a tile of `dims` that holds the element; the last dimension is the columns. "row, column".
std::string row_text(const TileIndex& index, const Dims& dims);
std::string place_text(const TileIndex& index, const Dims& dims);
// The index of an operand of `dims` where the result's is `index`: right-aligned, 0 where it stretches.
TileIndex operand_index(const TileIndex& index, const Dims& dims);
// The index into a view's operand.
TileIndex viewed_index(Op op, const Attributes& attributes, const TileIndex& index, const Dims& operand);

}  // namespace gqa

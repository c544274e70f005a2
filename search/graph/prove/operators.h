// operators.h: what each operator computes, over any algebra.
// Owns: apply(), an operator on dense tensors, each spelled in the few steps an Algebra has. So the same text gives
// real numbers (evaluate.cc) and field elements (equivalence.cc).
// Never: checks shapes (shape.h has), carries state between steps (interpreter.h does).
// Threads: pure but for the algebra it is handed.
//
// An Algebra has a type Value, and
//   zero(), lowest() (-inf), constant(c, count) (c / count)
//   unary(op, attributes, x), binary(op, a, b)   the elementwise operators
//   multiply_add(sum, a, b)                      sum += a b
//   max(a, b)                                    associative, commutative; lowest() is neutral
//   running_max(before, x)                       interpreter.h: any value may stand for it
//   settle(values, count, type)                  what a kernel's result becomes in memory
// Workers with a loop need an algebra whose functions may be called on several threads at once.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "search/graph/ir/axis.h"
#include "search/graph/ir/op.h"
#include "search/graph/prove/dense.h"
#include "search/graph/workers.h"

namespace gqa {

// Ascending places along a dimension; empty: all of them.
using Indices = std::vector<std::int64_t>;

// Where a tile lies in the whole, along its last two dimensions: what a mask needs to know. Where only some of the
// whole's rows or columns are looked at (sample.h), row_at and column_at say which.
struct Place {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  Indices row_at = {}, column_at = {};

  std::int64_t row_of(std::int64_t i) const { return row_at.empty() ? row + i : row_at[static_cast<std::size_t>(i)]; }
  std::int64_t column_of(std::int64_t j) const {
    return column_at.empty() ? column + j : column_at[static_cast<std::size_t>(j)];
  }
};

template <typename Algebra>
class Operators {
 public:
  using Value = typename Algebra::Value;
  using Tensor = DenseTensor<Value>;

  explicit Operators(Algebra& algebra, Workers workers = {}) : algebra_(algebra), workers_(std::move(workers)) {}

  Tensor unary(Op op, const Attributes& attributes, const Tensor& x) const {
    Tensor result(x.dims);
    each_piece(static_cast<std::int64_t>(x.data.size()), kPiece, [&](std::int64_t begin, std::int64_t count) {
      for (auto at = static_cast<std::size_t>(begin); at < static_cast<std::size_t>(begin + count); ++at)
        result.data[at] = algebra_.unary(op, attributes, x.data[at]);
    });
    return result;
  }

  Tensor binary(Op op, const Tensor& a, const Tensor& b) const {
    Tensor result(broadcast_dims(a.dims, b.dims));
    const Dims a_strides = broadcast_strides(a.dims, result.dims), b_strides = broadcast_strides(b.dims, result.dims);
    const std::int64_t a_step = a_strides.back(), b_step = b_strides.back();
    each_row<3>(result.dims, {row_major_strides(result.dims), a_strides, b_strides}, [&](const auto& at) {
      Value* to = result.data.data() + at[0];
      const Value *x = a.data.data() + at[1], *y = b.data.data() + at[2];
      for (std::int64_t j = 0; j < result.dims.back(); ++j) to[j] = algebra_.binary(op, x[j * a_step], y[j * b_step]);
    });
    return result;
  }

  Tensor matmul(const Attributes& attributes, const Tensor& a, const Tensor& b) const {
    return multiply(attributes.transpose_a ? swap_last(a) : a, attributes.transpose_b ? swap_last(b) : b);
  }

  Tensor reduce(Op op, std::int64_t dim, const Tensor& x) const {
    const auto at = static_cast<std::size_t>(dim);
    const std::int64_t size = x.dims[at];
    const std::int64_t inner = elements(Dims(x.dims.begin() + dim + 1, x.dims.end()));
    const std::int64_t outer = elements(Dims(x.dims.begin(), x.dims.begin() + dim));
    Dims dims = x.dims;
    dims[at] = 1;
    Tensor result(dims, op == Op::kMax ? algebra_.lowest() : algebra_.zero());
    each_piece(outer, std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, size * inner)),
               [&](std::int64_t begin, std::int64_t count) {
                 for (std::int64_t i = begin * size; i < (begin + count) * size; ++i)
                   fold(op, x.data.data() + i * inner, inner, result.data.data() + i / size * inner);
               });
    if (op != Op::kMean) return result;
    return binary(Op::kMul, result, Tensor({1}, algebra_.constant(1, size)));
  }

  Tensor softmax(std::int64_t dim, const Tensor& x) const {
    const Tensor weights = unary(Op::kExp, {}, binary(Op::kSubMax, x, reduce(Op::kMax, dim, x)));
    return binary(Op::kNormalize, weights, reduce(Op::kSum, dim, weights));
  }

  Tensor rms_norm(double epsilon, const Tensor& x) const {
    const auto last = static_cast<std::int64_t>(x.dims.size()) - 1;
    Attributes shift;
    shift.factor = epsilon;
    const Tensor mean = reduce(Op::kMean, last, unary(Op::kSquare, {}, x));
    return binary(Op::kMul, x, unary(Op::kRsqrt, {}, unary(Op::kAddConstant, shift, mean)));
  }

  Tensor mask(const Attributes& attributes, const Place& place, const Tensor& x) const {
    Tensor result = x;
    const std::int64_t rows = x.dims[x.dims.size() - 2], columns = x.dims.back();
    if (columns == 0) return result;
    const std::int64_t lines = static_cast<std::int64_t>(x.data.size()) / columns;
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t diagonal = place.row_of(line % rows) + place.columns - place.rows;
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t right = place.column_of(j) - diagonal;
        const bool seen = (attributes.right == kUnbounded || right <= attributes.right) &&
                          (attributes.left == kUnbounded || -right <= attributes.left);
        if (!seen) result.data[static_cast<std::size_t>(line * columns + j)] = algebra_.lowest();
      }
    }
    return result;
  }

  Tensor transpose(const Dims& order, const Tensor& x) const {
    const Dims strides = row_major_strides(x.dims);
    Dims dims, from;
    for (const std::int64_t at : order) {
      dims.push_back(x.dims[static_cast<std::size_t>(at)]);
      from.push_back(strides[static_cast<std::size_t>(at)]);
    }
    return gather(dims, from, x);
  }

  void settle(ElementType type, Tensor* x) const {
    each_piece(static_cast<std::int64_t>(x->data.size()), kPiece,
               [&](std::int64_t begin, std::int64_t count) { algebra_.settle(x->data.data() + begin, count, type); });
  }

  Tensor apply(Op op, const Attributes& attributes, const Place& place,
               const std::vector<const Tensor*>& inputs) const {
    switch (op) {
      case Op::kMatmul:
        return matmul(attributes, *inputs[0], *inputs[1]);
      case Op::kSum:
      case Op::kMax:
      case Op::kMean:
        return reduce(op, attributes.dim, *inputs[0]);
      case Op::kSoftmax:
        return softmax(attributes.dim, *inputs[0]);
      case Op::kRmsNorm: {
        Tensor normed = rms_norm(attributes.epsilon, *inputs[0]);
        return inputs.size() == 1 ? normed : binary(Op::kMul, normed, *inputs[1]);
      }
      case Op::kMask:
        return mask(attributes, place, *inputs[0]);
      case Op::kTranspose:
        return transpose(attributes.dims, *inputs[0]);
      case Op::kBroadcast:
        return gather(attributes.dims, broadcast_strides(inputs[0]->dims, attributes.dims), *inputs[0]);
      case Op::kSqueeze:
      case Op::kUnsqueeze:
        return view(op, attributes.dim, *inputs[0]);
      case Op::kConstant:
        return Tensor(attributes.dims, algebra_.constant(attributes.factor, 1));
      default:
        return inputs.size() == 1 ? unary(op, attributes, *inputs[0]) : binary(op, *inputs[0], *inputs[1]);
    }
  }

 private:
  static constexpr std::int64_t kPiece = 1 << 14;  // elements that are worth a turn of a thread

  // Calls visit(begin, count) for consecutive pieces of `size`.
  template <typename Visit>
  void each_piece(std::int64_t count, std::int64_t size, const Visit& visit) const {
    workers_.each((count + size - 1) / size,
                  [&](std::int64_t at) { visit(at * size, std::min(size, count - at * size)); });
  }

  // Calls visit(offsets) for each row of dims.
  template <std::size_t N, typename Visit>
  void each_row(const Dims& dims, const std::array<Dims, N>& strides, const Visit& visit) const {
    const Dims outer = outer_dims(dims);
    const std::int64_t row = dims.empty() ? 1 : dims.back();
    if (row == 0) return;
    each_piece(elements(outer), std::max<std::int64_t>(1, kPiece / row),
               [&](std::int64_t begin, std::int64_t count) { walk_part<N>(outer, strides, begin, count, visit); });
  }

  static Dims broadcast_dims(const Dims& a, const Dims& b) {
    Dims dims(std::max(a.size(), b.size()), 1);
    for (std::size_t back = 1; back <= dims.size(); ++back) {
      const std::int64_t x = back <= a.size() ? a[a.size() - back] : 1, y = back <= b.size() ? b[b.size() - back] : 1;
      dims[dims.size() - back] = x == 1 ? y : x;
    }
    return dims;
  }

  void fold(Op op, const Value* from, std::int64_t size, Value* to) const {
    for (std::int64_t j = 0; j < size; ++j)
      to[j] = op == Op::kMax ? algebra_.max(to[j], from[j]) : algebra_.binary(Op::kAdd, to[j], from[j]);
  }

  Tensor gather(const Dims& dims, const Dims& strides, const Tensor& x) const {
    Tensor result(dims);
    each_row<2>(dims, {row_major_strides(dims), strides}, [&](const auto& at) {
      for (std::int64_t j = 0; j < dims.back(); ++j)
        result.data[static_cast<std::size_t>(at[0] + j)] = x.data[static_cast<std::size_t>(at[1] + j * strides.back())];
    });
    return result;
  }

  Tensor swap_last(const Tensor& x) const {
    Dims order(x.dims.size());
    for (std::size_t at = 0; at < order.size(); ++at) order[at] = static_cast<std::int64_t>(at);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return transpose(order, x);
  }

  static Tensor view(Op op, std::int64_t dim, const Tensor& x) {
    Tensor result = x;
    if (op == Op::kSqueeze) {
      result.dims.erase(result.dims.begin() + dim);
    } else {
      result.dims.insert(result.dims.begin() + dim, 1);
    }
    return result;
  }

  Tensor multiply(const Tensor& a, const Tensor& b) const {
    const Dims a_batch(a.dims.begin(), a.dims.end() - 2), b_batch(b.dims.begin(), b.dims.end() - 2);
    const std::int64_t rows = a.dims[a.dims.size() - 2], inner = a.dims.back(), columns = b.dims.back();
    Dims dims = broadcast_dims(a_batch, b_batch);
    const Dims batch = dims;
    dims.push_back(rows);
    dims.push_back(columns);
    Tensor result(dims, algebra_.zero());
    std::vector<std::array<std::int64_t, 2>> origins;  // of a and b, a product each
    walk<2>(batch, {broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch)}, [&](const auto& at) {
      origins.push_back({at[0] * rows * inner, at[1] * inner * columns});
    });
    const std::int64_t across = (columns + kColumns - 1) / kColumns, down = (rows + kRows - 1) / kRows;
    workers_.each(static_cast<std::int64_t>(origins.size()) * down * across, [&](std::int64_t at) {
      const std::int64_t product = at / (down * across);
      const auto [from_a, from_b] = origins[static_cast<std::size_t>(product)];
      const Piece piece = {at / across % down * kRows, at % across * kColumns};
      multiply_piece(a.data.data() + from_a, b.data.data() + from_b, piece, rows, inner, columns,
                     result.data.data() + product * rows * columns);
    });
    return result;
  }

  // A piece of a product: it stays in the cache while b's columns go by.
  struct Piece {
    std::int64_t row, column;
  };
  static constexpr std::int64_t kRows = 32, kColumns = 256;

  void multiply_piece(const Value* a, const Value* b, const Piece& piece, std::int64_t rows, std::int64_t inner,
                      std::int64_t columns, Value* result) const {
    const std::int64_t end = std::min(rows, piece.row + kRows), width = std::min(columns - piece.column, kColumns);
    for (std::int64_t k = 0; k < inner; ++k) {
      for (std::int64_t i = piece.row; i < end; ++i)
        add_row(a[i * inner + k], b + k * columns + piece.column, width, result + i * columns + piece.column);
    }
  }

  void add_row(const Value& factor, const Value* row, std::int64_t width, Value* sums) const {
    const Value x = factor;  // sums may not hold it
    for (std::int64_t j = 0; j < width; ++j) algebra_.multiply_add(sums[j], x, row[j]);
  }

  Algebra& algebra_;
  const Workers workers_;
};

}  // namespace gqa

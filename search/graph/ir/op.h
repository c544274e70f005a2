// op.h: the operators of a µGraph, one flat table.
// Owns: Op and what every part of the search asks about one: its name, operands, attributes, class, in what it is
// linear, and the levels it may stand at; Attributes, the parameters of one use of it, as text.
// Never: computes or infers shapes (shape.h does). A new operator is one line here, its shape rule in shape.cc and its
// value in evaluate.cc and field.cc (in operators.h where it is not elementwise).
// Threads: constants and values.
#pragma once

#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <string_view>

#include "search/graph/ir/tensor.h"
#include "search/status.h"

namespace gqa {

// What an operator does with its operands' elements.
enum class OpClass : std::uint8_t {
  kSource,       // makes a value of nothing
  kContraction,  // products summed over a shared dimension
  kElementwise,  // each result element from the operands' elements at its place; size-1 dimensions broadcast
  kMask,         // elementwise, but knows its place
  kReduction,    // folds a dimension to size 1
  kRow,          // several reductions and elementwise steps in one name; rewriting opens it
  kView,         // moves elements
  kAccumulator,  // block level: carries from one step of the loop to the next
  kCustom,       // kernel level: holds a block graph
};

// In which operands f(c x) = c f(x) and f(x + y) = f(x) + f(y).
enum class Linear : std::uint8_t {
  kNo,     // exp, ...
  kAll,    // in all at once: add, sum, transpose
  kEach,   // in each alone: mul, matmul
  kFirst,  // in the first: div
};

// Where an operator may stand.
enum class Level : std::uint8_t { kBoth, kKernel, kBlock };

// X(field, type, text key, default)
#define GQA_OP_ATTRIBUTES(X)                                                                  \
  X(dim, std::int64_t, "dim", -1)   /* counted from 0; from the end below 0 */                \
  X(transpose_a, bool, "ta", false) /* matmul: of the last two dimensions */                  \
  X(transpose_b, bool, "tb", false)                                                           \
  X(factor, double, "c", 1.0)        /* scale, add_constant, constant */                      \
  X(count, std::int64_t, "count", 1) /* scale: factor / count, a dim's size */                \
  X(low, double, "lo", -kInfinity)   /* clamp */                                              \
  X(high, double, "hi", kInfinity)                                                            \
  X(epsilon, double, "eps", 0.0)                  /* rms_norm */                              \
  X(left, std::int64_t, "left", kUnbounded)       /* mask: keys seen before the diagonal */   \
  X(right, std::int64_t, "right", kUnbounded)     /* mask: and after it; 0: causal */         \
  X(dims, Dims, "dims", {})                       /* transpose: order; broadcast, constant */ \
  X(type, ElementType, "type", ElementType::kF16) /* constant */

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
inline constexpr double kLog2E = std::numbers::log2e;  // exp(x) = exp2(kLog2E x): the constant equivalence knows

struct Attributes {
#define GQA_FIELD(field, kind, key, initial) kind field = initial;
  GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

// Attributes of an operator along one dimension; negative ones count from the last.
inline Attributes attributes_along(std::int64_t dim) {
  Attributes attributes;
  attributes.dim = dim;
  return attributes;
}

// A bit an attribute: which ones an operator reads. The others keep their defaults.
namespace attribute {
enum Index : unsigned {
#define GQA_FIELD(field, kind, key, initial) i_##field,
  GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
};
enum Bits : unsigned {
  none = 0,
#define GQA_FIELD(field, kind, key, initial) field = 1u << i_##field,
  GQA_OP_ATTRIBUTES(GQA_FIELD)
#undef GQA_FIELD
      transposes = transpose_a | transpose_b,
  bounds = low | high,
  window = left | right,
};
}  // namespace attribute

// X(id, name, class, least operands, most operands, linear, commutes, level, attributes)
// Rows that say more than their name:
//   scale          factor x / count. count is the size of a dimension where a mean was opened: equivalence shrinks it
//   sub_max        x − m, but −inf wherever x is −inf and 0 wherever x is m: a score minus a maximum, where masked
//                  scores stay masked and a score that overflowed to +inf leaves the others the weight 0
//   normalize      x / total, but 0 wherever total is 0: a row that sees no key gives 0
//   sum, max, mean fold dim to size 1
//   mask           row i of M and column j of N: −inf unless −left <= j − (i + N − M) <= right (bottom-right aligned)
//   load           a tile of operand BlockNode::operand through BlockNode::map
//   accumulate     the sum of x over the steps; accumulate_max: their maximum
//   running_max    the maximum of x up to this step; after the loop, of all. Any value would do in exact arithmetic
//   accumulate_rescaled(x, m)   acc = acc exp(m before − m) + x, m a running_max
#define GQA_OPS(X)                                                                               \
  X(kConstant, "constant", kSource, 0, 0, kNo, false, kKernel, factor | dims | type)             \
  X(kMatmul, "matmul", kContraction, 2, 2, kEach, false, kBoth, transposes)                      \
  X(kAdd, "add", kElementwise, 2, 2, kAll, true, kBoth, none)                                    \
  X(kSub, "sub", kElementwise, 2, 2, kAll, false, kBoth, none)                                   \
  X(kMul, "mul", kElementwise, 2, 2, kEach, true, kBoth, none)                                   \
  X(kDiv, "div", kElementwise, 2, 2, kFirst, false, kBoth, none)                                 \
  X(kSubMax, "sub_max", kElementwise, 2, 2, kAll, false, kBoth, none)                            \
  X(kNormalize, "normalize", kElementwise, 2, 2, kFirst, false, kBoth, none)                     \
  X(kExp, "exp", kElementwise, 1, 1, kNo, false, kBoth, none)                                    \
  X(kExp2, "exp2", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kSqrt, "sqrt", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kRsqrt, "rsqrt", kElementwise, 1, 1, kNo, false, kBoth, none)                                \
  X(kSquare, "square", kElementwise, 1, 1, kNo, false, kBoth, none)                              \
  X(kReciprocal, "reciprocal", kElementwise, 1, 1, kNo, false, kBoth, none)                      \
  X(kRelu, "relu", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kSilu, "silu", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kGelu, "gelu", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kTanh, "tanh", kElementwise, 1, 1, kNo, false, kBoth, none)                                  \
  X(kClamp, "clamp", kElementwise, 1, 1, kNo, false, kBoth, bounds)                              \
  X(kScale, "scale", kElementwise, 1, 1, kAll, false, kBoth, factor | count)                     \
  X(kAddConstant, "add_constant", kElementwise, 1, 1, kNo, false, kBoth, factor)                 \
  X(kMask, "mask", kMask, 1, 1, kNo, false, kBoth, window)                                       \
  X(kSum, "sum", kReduction, 1, 1, kAll, false, kBoth, dim)                                      \
  X(kMax, "max", kReduction, 1, 1, kNo, false, kBoth, dim)                                       \
  X(kMean, "mean", kReduction, 1, 1, kAll, false, kBoth, dim)                                    \
  X(kSoftmax, "softmax", kRow, 1, 1, kNo, false, kBoth, dim)                                     \
  X(kRmsNorm, "rms_norm", kRow, 1, 2, kNo, false, kBoth, epsilon)                                \
  X(kTranspose, "transpose", kView, 1, 1, kAll, false, kBoth, dims)                              \
  X(kBroadcast, "broadcast", kView, 1, 1, kAll, false, kKernel, dims)                            \
  X(kSqueeze, "squeeze", kView, 1, 1, kAll, false, kBoth, dim)                                   \
  X(kUnsqueeze, "unsqueeze", kView, 1, 1, kAll, false, kBoth, dim)                               \
  X(kLoad, "load", kSource, 0, 0, kNo, false, kBlock, none)                                      \
  X(kAccumulate, "accumulate", kAccumulator, 1, 1, kAll, false, kBlock, none)                    \
  X(kAccumulateMax, "accumulate_max", kAccumulator, 1, 1, kNo, false, kBlock, none)              \
  X(kRunningMax, "running_max", kAccumulator, 1, 1, kNo, false, kBlock, none)                    \
  X(kAccumulateRescaled, "accumulate_rescaled", kAccumulator, 2, 2, kFirst, false, kBlock, none) \
  X(kCustom, "custom", kCustom, 0, 64, kNo, false, kKernel, none)

enum class Op : std::uint8_t {
#define GQA_OP(id, text, ...) id,
  GQA_OPS(GQA_OP)
#undef GQA_OP
};

struct OpInfo {
  Op op;
  std::string_view name;
  OpClass kind;
  std::size_t least, most;  // operands
  Linear linear;
  bool commutes;  // its two operands may be swapped
  Level level;
  unsigned attributes;  // attribute::Bits
};

const OpInfo& info(Op op);
const OpInfo* find_op(std::string_view name);  // null: no such operator
inline std::string_view name(Op op) { return info(op).name; }
std::string op_names(Level level);  // "matmul, add, ...": for messages; kBoth: all

// " dim=2 c=0.125": the attributes that differ from their defaults, each after a space.
std::string to_text(const Attributes& attributes);
// Reads one "key=value" into *attributes; an error names what op takes.
Status parse_attribute(Op op, std::string_view item, Attributes* attributes);
// Fails when an attribute that op does not read has been set.
Status check(Op op, const Attributes& attributes);

// The shortest decimal text that reads back as the same number; "inf", "-inf".
std::string to_text(double value);
Status parse(std::string_view text, double* value);
Status parse(std::string_view text, Dims* dims);  // "[2,256,64]"

}  // namespace gqa

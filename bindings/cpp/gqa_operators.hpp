// gqa_operators.hpp: the operators of graphs as C++ has them; gqa_graph.hpp includes it.
// Owns: one function or operator for each of gqa_graph.h's; their comments there hold here.
// Never: decides anything: every rule and every message is the library's.
// Threads: as a graph.
#ifndef GQA_OPERATORS_HPP_
#define GQA_OPERATORS_HPP_

#include <cstdint>
#include <string>
#include <vector>

#include "gqa_graph.hpp"

namespace gqa {

namespace detail {

template <typename Function, typename... Rest>
Value made(Function function, Value x, Rest... rest) {
  gqa_value result = {};
  check(function(x.graph(), x.get(), rest..., &result));
  return {x.graph(), result};
}

}  // namespace detail

// (.., m, k) x (.., k, n); transpose_a, transpose_b: an operand's last two dimensions are given swapped.
inline Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false) {
  return detail::made(gqa_graph_matmul, a, b.get(), transpose_a ? 1 : 0, transpose_b ? 1 : 0);
}

inline Value operator+(Value a, Value b) { return detail::made(gqa_graph_add, a, b.get()); }
inline Value operator-(Value a, Value b) { return detail::made(gqa_graph_sub, a, b.get()); }
inline Value operator*(Value a, Value b) { return detail::made(gqa_graph_mul, a, b.get()); }
inline Value operator/(Value a, Value b) { return detail::made(gqa_graph_div, a, b.get()); }

inline Value scale(Value x, double factor) { return detail::made(gqa_graph_scale, x, factor); }
inline Value add_constant(Value x, double constant) { return detail::made(gqa_graph_add_constant, x, constant); }
inline Value reciprocal(Value x) { return detail::made(gqa_graph_reciprocal, x); }

inline Value operator-(Value x) { return scale(x, -1); }
inline Value operator+(Value x, double c) { return add_constant(x, c); }
inline Value operator+(double c, Value x) { return add_constant(x, c); }
inline Value operator-(Value x, double c) { return add_constant(x, -c); }
inline Value operator-(double c, Value x) { return add_constant(-x, c); }
inline Value operator*(Value x, double c) { return scale(x, c); }
inline Value operator*(double c, Value x) { return scale(x, c); }
inline Value operator/(Value x, double c) { return scale(x, 1 / c); }
inline Value operator/(double c, Value x) { return c == 1 ? reciprocal(x) : scale(reciprocal(x), c); }

inline Value exp(Value x) { return detail::made(gqa_graph_exp, x); }
inline Value sqrt(Value x) { return detail::made(gqa_graph_sqrt, x); }
inline Value square(Value x) { return detail::made(gqa_graph_square, x); }
inline Value relu(Value x) { return detail::made(gqa_graph_relu, x); }
inline Value silu(Value x) { return detail::made(gqa_graph_silu, x); }
inline Value gelu(Value x) { return detail::made(gqa_graph_gelu, x); }
inline Value tanh(Value x) { return detail::made(gqa_graph_tanh, x); }
inline Value clamp(Value x, double low, double high) { return detail::made(gqa_graph_clamp, x, low, high); }

// dim: from 0, or below 0 from the end. It stays, with size 1.
inline Value sum(Value x, int dim) { return detail::made(gqa_graph_sum, x, dim); }
inline Value max(Value x, int dim) { return detail::made(gqa_graph_max, x, dim); }
inline Value mean(Value x, int dim) { return detail::made(gqa_graph_mean, x, dim); }
inline Value softmax(Value x, int dim = -1) { return detail::made(gqa_graph_softmax, x, dim); }

// Along the last dimension.
inline Value rms_norm(Value x, double epsilon = 1e-6) {
  return detail::made(gqa_graph_rms_norm, x, static_cast<const gqa_value*>(nullptr), epsilon);
}
inline Value rms_norm(Value x, Value weight, double epsilon = 1e-6) {
  const gqa_value given = weight.get();
  return detail::made(gqa_graph_rms_norm, x, &given, epsilon);
}

// Keeps key j of query i where -left <= j - (i + keys - queries) <= right; below 0: no bound.
inline Value mask(Value x, std::int64_t left, std::int64_t right) {
  return detail::made(gqa_graph_mask, x, left, right);
}
inline Value causal_mask(Value x) { return mask(x, -1, 0); }

inline Value broadcast(Value x, const Dims& dims) {
  return detail::made(gqa_graph_broadcast, x, static_cast<int>(dims.size()), dims.data());
}
// Dimension i of the result is dimension order[i] of x.
inline Value transpose(Value x, const std::vector<int>& order) {
  const std::size_t rank = x.dims().size();
  if (order.size() != rank)
    throw Error(GQA_ERROR_RANK, "an order of " + std::to_string(order.size()) + " dimensions for a value of " +
                                    std::to_string(rank) + ": expected one for each");
  return detail::made(gqa_graph_transpose, x, order.data());
}

}  // namespace gqa

#endif  // GQA_OPERATORS_HPP_

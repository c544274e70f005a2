// plain_attention.h: attention as its formula is written, one row at a time: what reference.h is held against.
// Owns: out = softmax(chain(scale q k^T) + mask) v, a sink in the denominator, in float64 and float32.
// Never: fast; never shares code with what it judges.
// Threads: pure functions of host memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/device.h"
#include "runtime/element.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace plain {

// Some elements of a tensor, a step apart.
struct Row {
  ElementType type;
  const std::byte* first;
  std::int64_t step = 1;
  float operator[](std::int64_t d) const { return load_element(type, first + d * step * element_bytes(type)); }
};

inline Row row_of(const Call& call, Role role, int batch, int row, int head) {
  const Strides& s = call.strides(role);
  const ElementType type = call.problem.q_type;
  return {type, call.at<std::byte>(role) + (batch * s.batch + row * s.row + head * s.head) * element_bytes(type)};
}

// A row of k or v, which may lie in pages.
inline Row cached_row(const Call& call, Role role, int batch, int key, int head) {
  if (!call.problem.paged()) return row_of(call, role, batch, key, head);
  const int page = call.list(Role::kPageTable)[batch * call.strides(Role::kPageTable).batch + key / call.problem.page];
  return row_of(call, role, page, key % call.problem.page, head);
}

// The rule of masks, key by key: the last query stands at the last key.
inline bool sees(const Problem& p, int position, int keys, int key) {
  const int own = position + keys - p.q_len;
  if (p.causal()) return key <= own;
  return (p.window_left < 0 || key >= own - p.window_left) && (p.window_right < 0 || key <= own + p.window_right);
}

// A key's elements, side by side or, where keys lie transposed, a row apart.
inline Row key_of(const Call& call, int batch, int key, int head) {
  if (!call.problem.keys_transposed()) return cached_row(call, Role::kK, batch, key, head);
  Row row = row_of(call, Role::kK, batch, 0, head);
  row.first += std::int64_t{key} * element_bytes(row.type);
  row.step = call.strides(Role::kK).row;
  return row;
}

struct Rounded {
  ElementType type;
  float operator()(float value) const {
    std::byte bits[sizeof value];
    store_element(type, value, bits);
    return load_element(type, bits);
  }
};

// Where a score stands, as a chain's arrays have it.
struct ScorePlace {
  int batch, head, position, key;
};

inline float array_operand(const Call& call, ChainOperand operand, const ScorePlace& of) {
  const auto row = [&](const Strides& s) { return of.batch * s.batch + of.position * s.row + of.head * s.head; };
  const auto* factors = call.at<float>(Role::kScoreScale);
  const std::int64_t score = row(call.strides(Role::kBias)) + of.key;
  if (operand == ChainOperand::kHead) return factors[of.head];
  if (operand == ChainOperand::kRow) return factors[row(call.strides(Role::kScoreScale))];
  if (operand == ChainOperand::kTensor32) return call.at<float>(Role::kBias)[score];
  return load_element(call.problem.q_type,
                      call.at<std::byte>(Role::kBias) + score * element_bytes(call.problem.q_type));
}

// A score through the problem's chain, step by step as written.
template <typename Real>
inline Real chained(const Call& call, const ScorePlace& of, Real x) {
  for (const ChainStep& step : call.problem.chain) {
    Real number = 0;
    if (step.operand == ChainOperand::kSlot)
      number = Real{call.slots[step.slot]};
    else if (step.operand != ChainOperand::kNone)
      number = Real{array_operand(call, step.operand, of)};
    switch (step.op) {
      case Op::kAdd:
        x = x + number;
        break;
      case Op::kSub:
        x = x - number;
        break;
      case Op::kMul:
        x = x * number;
        break;
      case Op::kDiv:
        x = x / number;
        break;
      case Op::kExp:
        x = std::exp(x);
        break;
      case Op::kExp2:
        x = std::exp2(x);
        break;
      case Op::kSqrt:
        x = std::sqrt(x);
        break;
      case Op::kRsqrt:
        x = 1 / std::sqrt(x);
        break;
      case Op::kSquare:
        x = x * x;
        break;
      case Op::kReciprocal:
        x = 1 / x;
        break;
      case Op::kRelu:
        x = x < 0 ? 0 : x;
        break;
      case Op::kSilu:
        x = x / (1 + std::exp(-x));
        break;
      case Op::kGelu:
        x = x * (1 + std::erf(x / std::sqrt(Real{2}))) / 2;
        break;
      case Op::kTanh:
        x = std::tanh(x);
        break;
      case Op::kClamp:
        x = x < number ? number : std::min(x, Real{call.slots[step.slot + 1U]});
        break;
      default:
        x = std::numeric_limits<Real>::quiet_NaN();
    }
  }
  return x;
}

template <typename Real>
inline void attention_row(const Call& call, int batch, int head, int position, Real* out, Real* lse) {
  const Problem& p = call.problem;
  const int kv_head = head / p.group();
  const int keys = p.lengths_differ() ? call.list(Role::kKvLengths)[batch] : p.kv_len;
  const Row q = row_of(call, Role::kQ, batch, position, head);
  std::vector<Real> weights(static_cast<std::size_t>(keys));
  Real maximum = -std::numeric_limits<Real>::infinity();
  for (int j = 0; j < keys; ++j) {
    Real& weight = weights[static_cast<std::size_t>(j)];
    weight = -std::numeric_limits<Real>::infinity();
    if (!sees(p, position, keys, j)) continue;
    const Row k = key_of(call, batch, j, kv_head);
    Real dot = 0;
    for (int d = 0; d < p.head_dim; ++d) dot += Real{q[d]} * Real{k[d]};
    weight = chained(call, {batch, head, position, j}, dot * Real{call.scale});
    // A score is a float32: far from zero, scores that differ by less are equal, and a 16-bit output shows it.
    if (std::fabs(weight) >= Real{0x1p12F}) weight = Real{static_cast<float>(weight)};
    maximum = std::max(maximum, weight);
  }
  const bool sees_none = maximum == -std::numeric_limits<Real>::infinity();
  const Real sink =
      !call.has(Role::kSink) ? -std::numeric_limits<Real>::infinity() : Real{call.at<float>(Role::kSink)[head]};
  maximum = std::max(maximum, sink);
  const bool none = maximum == -std::numeric_limits<Real>::infinity();
  Real sum = none ? 0 : sink == maximum ? 1 : std::exp(sink - maximum);  // a sink may be infinite
  for (Real& weight : weights) sum += weight = none ? 0 : std::exp(weight - maximum);
  std::fill(out, out + p.head_dim_v, Real{0});
  for (int j = 0; j < keys && !sees_none; ++j) {
    if (!sees(p, position, keys, j)) continue;
    const Row v = cached_row(call, Role::kV, batch, j, kv_head);
    const Real weight = weights[static_cast<std::size_t>(j)] / sum;
    for (int d = 0; d < p.head_dim_v; ++d) out[d] += weight * Real{v[d]};
  }
  *lse = none ? maximum : maximum + std::log(sum);
}

}  // namespace plain

// A row that sees no key gives zeros and -inf.
inline void reference_row(const Call& call, int batch, int head, int position, double* out, double* lse) {
  plain::attention_row(call, batch, head, position, out, lse);
}

inline void reference_row(const Call& call, int batch, int head, int position, float* out, float* lse) {
  plain::attention_row(call, batch, head, position, out, lse);
}

}  // namespace gqa

// stand_in.h: verification's stand-in for FlashAttention-2, one row at a time: what kernels' errors are held against.
// Owns: float64 but for two roundings: weights under the exact maximum for the second product, and the output.
// Never: fast; never shares code with what it judges.
// Threads: pure functions of host memory.
#pragma once

#include "tests/runtime/plain_attention.h"

namespace gqa::test {

inline std::vector<double> stand_in_row(const Call& call, int batch, int head, int position) {
  const Problem& p = call.problem;
  const int keys = !call.has(Role::kKvLengths) ? p.kv_len : call.list(Role::kKvLengths)[batch];
  std::vector<double> scores(static_cast<std::size_t>(keys)), out(static_cast<std::size_t>(p.head_dim_v));
  const plain::Row q = plain::row_of(call, Role::kQ, batch, position, head);
  double highest = -INFINITY, sum = 0;
  for (int j = 0; j < keys; ++j) {
    double& score = scores[static_cast<std::size_t>(j)];
    const plain::Row k = plain::key_of(call, batch, j, head / p.group());
    for (int d = 0; d < p.head_dim; ++d) score += double{q[d]} * double{k[d]};
    score = plain::sees(p, position, keys, j)
                ? plain::chained(call, {batch, head, position, j}, score * double{call.scale})
                : -INFINITY;
    highest = std::max(highest, score);
  }
  if (call.has(Role::kSink) && highest > -INFINITY) {
    highest = std::max(highest, double{call.at<float>(Role::kSink)[head]});
    sum = std::exp(double{call.at<float>(Role::kSink)[head]} - highest);
  }
  const plain::Rounded rounded = {p.q_type};
  for (int j = 0; j < keys && highest > -INFINITY; ++j) {
    const double weight = std::exp(scores[static_cast<std::size_t>(j)] - highest);
    sum += weight;
    const plain::Row v = plain::cached_row(call, Role::kV, batch, j, head / p.group());
    for (int d = 0; d < p.head_dim_v; ++d)
      out[static_cast<std::size_t>(d)] += double{rounded(static_cast<float>(weight))} * double{v[d]};
  }
  for (double& one : out) one = sum > 0 ? rounded(static_cast<float>(one / sum)) : 0;
  return out;
}

}  // namespace gqa::test

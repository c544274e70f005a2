// trial_layout.cc: see trial_layout.h.
#include "runtime/verify/trial_layout.h"

#include <cmath>

namespace gqa {
namespace {

Strides compact(std::int64_t length, std::int64_t heads, std::int64_t dim) {
  return {length * heads * dim, heads * dim, dim};
}

}  // namespace

TrialLayout::TrialLayout(const Problem& p)
    : problem(p),
      shift(p.align >= 16 ? 0 : 1),
      q_strides(compact(p.q_len, p.q_heads, p.head_dim)),
      k_strides(compact(p.kv_len, p.kv_heads, p.head_dim)),
      v_strides(compact(p.kv_len, p.kv_heads, p.head_dim_v)),
      out_strides(compact(p.q_len, p.q_heads, p.head_dim_v)) {
  q = p.batch * q_strides.batch;
  k = p.batch * k_strides.batch;
  v = p.batch * v_strides.batch;
  out = p.batch * out_strides.batch;
  lse = p.lse ? std::int64_t{p.batch} * p.q_heads * p.q_len : 0;
}

Call TrialLayout::call(const TrialBuffers& buffers, const Problem& lengths, int set) const {
  Call c;
  c.q = buffers.q + q * set + shift;
  c.k = buffers.k + k * set + shift;
  c.v = buffers.v + v * set + shift;
  c.out = buffers.out + first_out();
  c.lse = problem.lse ? buffers.lse + kGuard : nullptr;
  c.q_strides = q_strides;
  c.k_strides = k_strides;
  c.v_strides = v_strides;
  c.out_strides = out_strides;
  c.lse_batch_stride = std::int64_t{problem.q_heads} * problem.q_len;
  c.lse_head_stride = problem.q_len;
  c.lse_row_stride = 1;
  c.scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
  c.problem = lengths;
  return c;
}

Problem ragged(Problem problem) {
  if (problem.q_len > 8) problem.q_len -= 3;
  if (problem.kv_len > 8) problem.kv_len -= 5;
  return problem;
}

}  // namespace gqa

// trial_layout.cc: see trial_layout.h.
#include "runtime/verify/trial_layout.h"

#include <cmath>

#include "search/problem/key_layout.h"

namespace gqa {
namespace {

Strides compact(std::int64_t length, std::int64_t heads, std::int64_t dim) {
  return {length * heads * dim, heads * dim, dim};
}

// How many slabs k and v each have.
std::int64_t slabs_of_keys(const Problem& p) { return p.paged() ? trial_pages(p) : p.batch; }

// Far from 1 and from each other, and near the scores: a cap that is left out, or in the wrong place, is seen.
constexpr ScoreSlots kTrialSlots = {1.5F, 0.75F, 2.25F, 0.5F};

// Packed sequences are one.
void pack(Strides* strides) { strides->batch = 0; }

}  // namespace

TrialLayout::TrialLayout(const Problem& p)
    : problem(p),
      shift(p.align >= 16 ? 0 : 1),
      q_strides(compact(p.q_len, p.q_heads, p.head_dim)),
      k_strides(compact(keys_together(p), p.kv_heads, p.head_dim)),
      v_strides(compact(keys_together(p), p.kv_heads, p.head_dim_v)),
      out_strides(compact(p.q_len, p.q_heads, p.head_dim_v)) {
  q = p.batch * q_strides.batch;
  k = slabs_of_keys(p) * k_strides.batch;
  v = slabs_of_keys(p) * v_strides.batch;
  out = p.batch * out_strides.batch;
  lse = p.lse ? std::int64_t{p.batch} * p.q_heads * p.q_len : 0;
  if (p.q_packed()) pack(&q_strides), pack(&out_strides);
  if (p.k_packed()) pack(&k_strides), pack(&v_strides);
}

std::int64_t TrialLayout::out_at(const TrialLists& lists, int batch, int position, int head) const {
  const std::int64_t row = std::int64_t{first_query_of(problem, lists, batch)} + position;
  return first_out() + batch * out_strides.batch + row * out_strides.row + head * out_strides.head;
}

std::int64_t TrialLayout::lse_at(const TrialLists& lists, int batch, int position, int head) const {
  const std::int64_t row = std::int64_t{first_query_of(problem, lists, batch)} + position;
  return kGuard + batch * lse_batch_stride() + head * lse_head_stride() + row;
}

TrialRows TrialLayout::trial_rows(TrialTensor tensor) const {
  // A chain's steps may make infinities of scores that are far from zero.
  if (tensor == TrialTensor::kHardQueries && problem.chain.any()) tensor = TrialTensor::kPlain;
  const int heads = tensor == TrialTensor::kKeys ? problem.kv_heads : problem.q_heads;
  return {tensor,
          problem.head_dim,
          heads,
          problem.kv_len,
          std::sqrt(static_cast<float>(problem.head_dim)),
          static_cast<int>(problem.q_type)};
}

Call TrialLayout::call(const Call& slabs, const Problem& lengths, int set) const {
  Call c = slabs;
  const auto place = [&](Role role, std::int64_t first, const Strides& strides) {
    c.set(role, slabs.at<std::byte>(role) + first * element_bytes(), strides);
  };
  place(Role::kQ, q * set + shift, q_strides);
  place(Role::kK, k * set + shift, k_strides);
  place(Role::kV, v * set + shift, v_strides);
  place(Role::kOut, first_out(), out_strides);
  c.leave_out(Role::kLse);
  if (problem.lse) c.set(Role::kLse, slabs.at<float>(Role::kLse) + kGuard, {lse_batch_stride(), 1, lse_head_stride()});
  c.q_rows = std::int64_t{problem.batch} * problem.q_len;
  c.k_rows = std::int64_t{problem.batch} * problem.kv_len;
  c.pages = trial_pages(problem);
  c.scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
  c.slots = kTrialSlots;
  c.problem = lengths;
  return c;
}

Problem ragged(Problem problem) {
  if (problem.q_packed()) return problem;  // its sequences are ragged
  if (problem.q_len > 8) problem.q_len -= 3;
  if (problem.kv_len > 8) problem.kv_len -= 5;
  return problem;
}

}  // namespace gqa

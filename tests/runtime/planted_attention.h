// planted_attention.h: attention as kernels compute it, by calculation, with faults planted that verification must see.
// Owns: a trial's inputs and reference, plain or hard; online softmax of a row, exact or wrong.
// Never: judges.
// Threads: values.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/element.h"
#include "runtime/verify/attention_check.h"
#include "runtime/verify/reference.h"
#include "runtime/verify/trial_layout.h"

namespace gqa::test {

inline Problem without_lse(Problem problem) {
  problem.lse = false;
  return problem;
}

// One trial's inputs and reference.
struct PlantedTrial {
  PlantedTrial(const Problem& p, TrialTensor queries, std::uint64_t seed) : problem(without_lse(p)), layout(problem) {
    make(layout.trial_rows(queries), layout.q, 3 * seed, &q);
    make(layout.trial_rows(TrialTensor::kKeys), layout.k, 3 * seed + 1, &k);
    make(layout.trial_rows(TrialTensor::kPlain), layout.v, 3 * seed + 2, &v);
    out.resize(static_cast<std::size_t>(layout.out_slab()));
    Call slabs;
    slabs.place(Role::kQ, q.data());
    slabs.place(Role::kK, k.data());
    slabs.place(Role::kV, v.data());
    slabs.place(Role::kOut, out.data());
    call = layout.call(slabs, problem, 0);
    for (int b = 0; b < p.batch; ++b)
      for (int h = 0; h < p.q_heads; ++h)
        for (int i = 0; i < p.q_len; ++i) places.push_back({b, h, i});
    reference = reference_rows(call, places, {});
    k_rows = rows(call.at(Role::kK), call.strides(Role::kK), problem.head_dim);
    v_rows = rows(call.at(Role::kV), call.strides(Role::kV), problem.head_dim_v);
  }

  void make(const TrialRows& rows, std::int64_t count, std::uint64_t seed, std::vector<std::uint16_t>* data) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const float normal = near_normal(seed * 0x100000001ULL + static_cast<std::uint64_t>(i));
      data->push_back(store(problem.q_type, trial_element(rows, normal, i)));
    }
  }

  std::vector<float> row(const void* base, const Strides& s, int batch, int position, int head, int dim) const {
    const std::uint16_t* at =
        static_cast<const std::uint16_t*>(base) + batch * s.batch + position * s.row + head * s.head;
    std::vector<float> made;
    for (int d = 0; d < dim; ++d) made.push_back(load(problem.q_type, at[d]));
    return made;
  }

  // Rows of keys or values, in the order of row_at().
  std::vector<std::vector<float>> rows(const void* base, const Strides& strides, int dim) const {
    std::vector<std::vector<float>> made;
    for (int b = 0; b < problem.batch; ++b)
      for (int h = 0; h < problem.kv_heads; ++h)
        for (int j = 0; j < problem.kv_len; ++j) made.push_back(row(base, strides, b, j, h, dim));
    return made;
  }
  std::size_t row_at(int batch, int kv_head, int position) const {
    return static_cast<std::size_t>((batch * problem.kv_heads + kv_head) * problem.kv_len + position);
  }

  Problem problem;
  TrialLayout layout;
  std::vector<std::uint16_t> q, k, v, out;
  Call call;
  std::vector<RowPlace> places;
  ReferenceRows reference;
  std::vector<std::vector<float>> k_rows, v_rows;
};

// How a kernel computes, or is wrong. block: of keys, whose maxima come one after the other.
struct Planted {
  int block = 64;
  bool eighth = false, sum = false, lost = false, zeroed = false;
};

// One row's online softmax.
class PlantedRow {
 public:
  PlantedRow(const PlantedTrial& trial, const RowPlace& at, const Planted& planted)
      : t_(trial), p_(trial.problem), at_(at), planted_(planted), out_(static_cast<std::size_t>(p_.head_dim_v)) {}

  std::vector<float> run() {
    const std::vector<float> row =
        t_.row(t_.call.at(Role::kQ), t_.call.strides(Role::kQ), at_.batch, at_.position, at_.head, p_.head_dim);
    const float* q = row.data();
    for (int j = 0; j < p_.kv_len; ++j) {
      const float* k = t_.k_rows[t_.row_at(at_.batch, head(), j)].data();
      float product = 0;
      for (int d = 0; d < p_.head_dim; ++d) product += q[d] * k[d];
      products_.push_back(product);
    }
    const int lost = p_.kv_len / planted_.block / 2 * planted_.block;
    for (int first = 0; first < p_.kv_len; first += planted_.block)
      if (!planted_.lost || first != lost) add(first, std::min(p_.kv_len, first + planted_.block));
    const float sum = planted_.sum ? sum_ * 1.01F : sum_;
    for (float& one : out_) one = rounded(one / sum);
    return out_;
  }

 private:
  int head() const { return at_.head / p_.group(); }
  float rounded(float x) const { return load(p_.q_type, store(p_.q_type, x)); }

  void add(int first, int end) {
    const float scale = t_.call.scale * 1.44269504F;
    const float highest = *std::max_element(products_.begin() + first, products_.begin() + end);
    const float maximum = std::max(maximum_, highest);
    const float factor = sum_ == 0 ? 0 : std::exp2((maximum_ - maximum) * scale);
    maximum_ = maximum;
    sum_ *= factor;
    for (float& one : out_) one *= factor;
    for (int j = first; j < end; ++j) {
      float weight = std::exp2((products_[static_cast<std::size_t>(j)] - maximum) * scale);
      if (planted_.eighth && j % 8 == 3) weight *= 1.01F;
      sum_ += weight;
      weight = rounded(weight);
      const float* v = t_.v_rows[t_.row_at(at_.batch, head(), j)].data();
      float* out = out_.data();
      for (int d = 0; d < p_.head_dim_v; ++d) out[d] += weight * v[d];
    }
  }

  const PlantedTrial& t_;
  const Problem& p_;
  const RowPlace& at_;
  const Planted& planted_;
  std::vector<float> products_, out_;
  float maximum_ = -INFINITY, sum_ = 0;
};

// The row whose outputs are smallest.
inline std::size_t smallest_row(const PlantedTrial& t) {
  const auto dim = static_cast<std::size_t>(t.problem.head_dim_v);
  std::vector<double> sizes;
  for (std::size_t at = 0; at < t.reference.out.size(); ++at) {
    if (at % dim == 0) sizes.push_back(0);
    sizes.back() += double{t.reference.out[at]} * double{t.reference.out[at]};
  }
  return static_cast<std::size_t>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
}

// What a kernel would leave in the trial's row.
inline std::vector<float> planted_row(const PlantedTrial& t, std::size_t row, const Planted& planted) {
  if (planted.zeroed && row == smallest_row(t))
    return std::vector<float>(static_cast<std::size_t>(t.problem.head_dim_v));
  return PlantedRow(t, t.places[row], planted).run();
}

}  // namespace gqa::test

// checked_case.h: a case on a trial's hard queries, with the reference of all its rows.
// Owns: its numbers; the right answer; the judgement of what a kernel left.
// Never: runs a kernel.
// Threads: a value that is not copied.
#pragma once

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "jit/device/check/trial_inputs.h"
#include "runtime/verify/attention_check.h"
#include "runtime/verify/reference.h"
#include "runtime/verify/trial_layout.h"
#include "tests/simt/kernels/attention_launch.h"

namespace gqa::simt {

// A case on hard queries, its checked rows and what the verification kernels are given.
struct CheckedCase {
  explicit CheckedCase(const std::string& text) : attention(test::problem_of(text)) {
    const Problem& p = attention.call.problem;
    const TrialLayout layout(p);
    make(layout.trial_rows(TrialTensor::kHardQueries), &attention.q);
    make(layout.trial_rows(TrialTensor::kKeys), &attention.k);
    for (int b = 0; b < p.batch; ++b)
      for (int h = 0; h < p.q_heads; ++h)
        for (int i = 0; i < p.q_len; ++i) places.push_back({b, h, i});
    reference = reference_rows(attention.call, places, {});
  }

  void make(const TrialRows& rows, test::AttentionCase::Words* data) const {
    const ElementType type = attention.call.problem.q_type;
    const auto words = static_cast<std::size_t>(element_bytes(type)) / 2;
    for (std::size_t i = 0; (i + 1) * words < data->size(); ++i) {
      auto* element = reinterpret_cast<std::byte*>(&(*data)[i * words]);
      store_element(type, trial_element(rows, load_element(type, element), static_cast<long long>(i)), element);
    }
  }

  // The reference itself, rounded.
  void answer_rightly() {
    const Problem& p = attention.call.problem;
    const auto dim = static_cast<std::size_t>(p.head_dim_v);
    for (std::size_t row = 0; row < places.size(); ++row) {
      const RowPlace& at = places[row];
      const auto words = static_cast<std::size_t>(element_bytes(p.q_type)) / 2;
      for (std::size_t d = 0; d < dim; ++d)
        store_element(p.q_type, static_cast<float>(reference.out[row * dim + d]),
                      reinterpret_cast<std::byte*>(&attention.out[(first_of(at) + d) * words]));
      attention.lse[row] = reference.lse[row];
    }
  }
  std::size_t first_of(const RowPlace& at) const {
    const Strides& s = attention.call.strides(Role::kOut);
    return static_cast<std::size_t>(at.batch * s.batch + at.position * s.row + at.head * s.head);
  }

  // What the case's out is, as a trial judges it.
  Verdict verdict() const {
    const Problem& p = attention.call.problem;
    Comparison comparison;
    for (std::size_t row = 0; row < places.size(); ++row) {
      const RowPlace& at = places[row];
      RowError error;
      for (int d = 0; d < p.head_dim_v; ++d)
        error.add(double{attention.out_at(at.batch, at.head, at.position, d)} -
                      reference.out[row * static_cast<std::size_t>(p.head_dim_v) + static_cast<std::size_t>(d)],
                  static_cast<std::int64_t>(row) * p.head_dim_v + d);
      comparison.rows.add(static_cast<std::int64_t>(row), reference.units[row], error);
    }
    std::vector<std::int64_t> rows(places.size());
    std::iota(rows.begin(), rows.end(), 0);
    return judge(measured(p, rows, comparison));
  }

  test::AttentionCase attention;
  std::vector<RowPlace> places;
  ReferenceRows reference;
};

}  // namespace gqa::simt

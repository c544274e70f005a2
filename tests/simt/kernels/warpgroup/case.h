// case.h: a warpgroup kernel's answer to a case against float64, under every schedule.
// Owns: the cases' form and fixture, the kernels compiled so far, the judgement.
// Never: chooses cases.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/warpgroup/launch.h"

namespace gqa::simt {

using test::problem_of;

// Dimension 0 of the keys makes the scores climb by `growth`, in units of a query's, from each 64 keys to the 64
// before.
inline void make_scores_climb(float growth, test::AttentionCase* attention) {
  const Problem& p = attention->call.problem;
  for (int j = 0; j < p.kv_len; ++j)
    attention->k[static_cast<std::size_t>(j * p.head_dim)] =
        store(p.q_type, growth * static_cast<float>((p.kv_len - 1 - j) / 64));
}

// All rows are alike: so many keys weigh so many powers of two more than the others, which are alike.
inline void set_weights(int first, int count, float powers, test::AttentionCase* attention) {
  const Problem& p = attention->call.problem;
  const auto dim = static_cast<std::size_t>(p.head_dim);
  const float query = std::sqrt(static_cast<float>(dim)), ln2 = 0.69314718F;
  for (std::size_t i = 0; i < attention->q.size(); ++i) attention->q[i] = store(p.q_type, i % dim == 0 ? query : 0.F);
  for (int j = 0; j < p.kv_len; ++j) {
    const bool set = j >= first && j < first + count;
    attention->k[static_cast<std::size_t>(j) * dim] = store(p.q_type, set ? powers * ln2 : 0.F);
  }
}

inline ::testing::AssertionResult agrees(const Kernel& kernel, const Candidate& candidate, int sms,
                                         test::AttentionCase* attention, const std::vector<Schedule>& wanted) {
  if (Status s = run_warpgroup(kernel, candidate, sms, attention, wanted); !s.ok())
    return ::testing::AssertionFailure() << s.message();
  return test::matches_float64(*attention);
}

inline ::testing::AssertionResult right(const char* candidate_text, int sms, test::AttentionCase* attention,
                                        const std::vector<Schedule>& wanted = schedules()) {
  Candidate candidate;
  if (Status s = parse(candidate_text, &candidate); !s.ok()) return ::testing::AssertionFailure() << s.message();
  return judged({attention_source(attention->call.problem, candidate)},
                [&](const Kernel& kernel) { return agrees(kernel, candidate, sms, attention, wanted); });
}

struct WarpgroupCase {
  const char* problem;
  const char* candidate;
  int sms = 1;
  float growth = 0;  // of the scores, from each 64 keys to the 64 before
  bool heads_first = false;
};

inline std::ostream& operator<<(std::ostream& out, const WarpgroupCase& c) {
  return out << c.problem << " | " << c.candidate;
}

class WarpgroupTest : public ::testing::TestWithParam<WarpgroupCase> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  static ::testing::AssertionResult right_under(const std::vector<Schedule>& wanted) {
    const WarpgroupCase& c = GetParam();
    test::AttentionCase attention(problem_of(c.problem), c.heads_first);
    if (c.growth != 0) {
      make_scores_climb(c.growth, &attention);
      attention.slack += 1e-2;
    }
    return right(c.candidate, c.sms, &attention, wanted);
  }
};

}  // namespace gqa::simt

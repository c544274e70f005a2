// hidden_keys_case.h: keys that no row of a call may see, holding NaN and infinities, which must not show.
// Owns: which keys those are, under windows, and what they hold.
// Never: runs a kernel.
// Threads: none.
#pragma once

#include "tests/runtime/attention_case.h"

namespace gqa::test {

// Windows whose rows leave out keys at the beginning, in the middle of a step of any kernel.
inline constexpr const char* kHidingProblems[] = {
    "b=1,hq=4,hk=2,sq=5,sk=150,d=64,left=20,causal", "b=2,hq=4,hk=2,sq=4,sk=200,d=64,dtype=f16,left=9,right=3",
    "b=1,hq=2,hk=1,sq=1,sk=75,d=64,left=0,causal,sink", "b=1,hq=2,hk=1,sq=3,sk=70,d=80,align=2,left=31,causal"};

inline void poison_hidden_keys(AttentionCase* t) {
  const Problem& p = t->call.problem;
  const int shift = p.align >= 16 ? 0 : 1;
  for (int b = 0; b < p.batch; ++b)
    for (int j = 0; j < p.kv_len; ++j) {
      bool seen = false;
      for (int i = 0; i < p.q_len; ++i) seen = seen || plain::sees(p, i, p.kv_len, j);
      for (int h = 0; h < p.kv_heads && !seen; ++h) {
        const auto number = [&](int d) { return (j + d) % 3 == 0 ? NAN : (j + d) % 3 == 1 ? INFINITY : -INFINITY; };
        const auto fill = [&](std::vector<std::uint16_t>* data, const Strides& s, int dim) {
          const std::int64_t at = shift + b * s.batch + j * s.row + h * s.head;
          for (int d = 0; d < dim; ++d) (*data)[static_cast<std::size_t>(at + d)] = store(p.kv_type, number(d));
        };
        fill(&t->k, t->call.strides(Role::kK), p.head_dim);
        fill(&t->v, t->call.strides(Role::kV), p.head_dim_v);
      }
    }
}

}  // namespace gqa::test

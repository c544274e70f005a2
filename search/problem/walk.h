// walk.h: which keys a query sees, in a sequence of so many keys.
// Owns: the rule of each mask, in positions: the host's kernels, cost and refusals ask here, as the device's loops ask
// jit/device/attention/common/walk.cuh. References say the rule for themselves.
// Never: knows tiles or blocks. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/problem/problem.h"

namespace gqa {

// Keys [first, end) of a sequence; none where end is not above first.
struct KeyRange {
  std::int32_t first = 0, end = 0;

  std::int32_t count() const { return std::max(0, end - first); }
};

// What the query at `position` sees of `keys` keys. The last query stands beside the last key (bottom-right).
inline KeyRange seen_keys(const Problem& p, std::int32_t position, std::int32_t keys) {
  const std::int64_t own = std::int64_t{position} + keys - p.q_len;
  const auto within = [&](std::int64_t key) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(key, 0, keys));
  };
  if (p.causal()) return {0, within(own + 1)};
  if (!p.windowed()) return {0, keys};
  return {p.window_left < 0 ? 0 : within(own - p.window_left),
          p.window_right < 0 ? keys : within(own + p.window_right + 1)};
}

// What queries [first, end) see between them.
inline KeyRange seen_keys(const Problem& p, std::int32_t first, std::int32_t end, std::int32_t keys) {
  return {seen_keys(p, first, keys).first, seen_keys(p, end - 1, keys).end};
}

// Sets the mask that shows `left` keys before the query's own and `right` after it, -1 for all of them: none, causal
// (all, 0) or a window.
inline void set_window(std::int32_t left, std::int32_t right, Problem* p) {
  p->window_left = p->window_right = -1;
  p->mask = left < 0 && right < 0 ? Mask::kNone : left < 0 && right == 0 ? Mask::kCausal : Mask::kWindow;
  if (!p->windowed()) return;
  p->window_left = left;
  p->window_right = right;
}

// The most keys that one query, and that all of a sequence's, see.
inline std::int32_t most_keys_of_a_query(const Problem& p) {
  if (p.window_left < 0) return p.kv_len;
  const std::int64_t after = p.window_right < 0 ? p.q_len - 1 : p.window_right;
  return static_cast<std::int32_t>(std::min<std::int64_t>(p.kv_len, std::int64_t{p.window_left} + 1 + after));
}
inline std::int32_t most_keys_of_all_queries(const Problem& p) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(p.kv_len, std::int64_t{most_keys_of_a_query(p)} + p.q_len - 1));
}

}  // namespace gqa

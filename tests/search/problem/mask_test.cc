// mask_test.cc: which keys a query sees, against the rule as it is written. Deterministic, one thread.
#include "search/problem/mask.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gqa {
namespace {

// The rule, key by key: query i of q stands at i + keys - q.
bool sees(const Problem& p, int position, int keys, int key) {
  const int own = position + keys - p.q_len;
  if (p.mask == Mask::kCausal) return key <= own;
  if (p.mask == Mask::kNone) return true;
  return (p.window_left < 0 || key >= own - p.window_left) && (p.window_right < 0 || key <= own + p.window_right);
}

Problem masked_problem(int q_len, int left, int right) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = 20;
  set_window(left, right, &p);
  return p;
}

TEST(MaskRule, SeenKeysAreTheRules) {
  for (const int q_len : {1, 4, 9})
    for (int left = -1; left < 7; ++left)
      for (int right = -1; right < 4; ++right)
        for (int keys = 0; keys <= 20; ++keys)
          for (int position = 0; position < q_len; ++position) {
            const Problem p = masked_problem(q_len, left, right);
            const KeyRange seen = seen_keys(p, {q_len, keys}, position);
            for (int key = 0; key < keys; ++key)
              ASSERT_EQ(key >= seen.first && key < seen.end, sees(p, position, keys, key))
                  << q_len << " queries, window " << left << ", " << right << ", " << keys << " keys, position "
                  << position << ", key " << key;
            ASSERT_GE(seen.first, 0);
            ASSERT_LE(seen.end, keys);
          }
}

TEST(MaskRule, RowsTogetherSeeFromTheFirstsFirstToTheLastsLast) {
  const Problem p = masked_problem(4, 2, 1);
  EXPECT_EQ(seen_keys(p, {4, 20}, 0, 4).first, seen_keys(p, {4, 20}, 0).first);
  EXPECT_EQ(seen_keys(p, {4, 20}, 0, 4).end, seen_keys(p, {4, 20}, 3).end);
}

TEST(MaskRule, HugeWindowsDoNotOverflow) {
  constexpr std::int32_t kMost = 2147483647;
  const Problem p = masked_problem(4, kMost, kMost);
  EXPECT_EQ(seen_keys(p, {4, kMost}, 3).first, 0);
  EXPECT_EQ(seen_keys(p, {4, kMost}, 0).end, kMost);
}

TEST(MaskRule, MostKeysAreReached) {
  for (int left = -1; left < 7; ++left)
    for (int right = -1; right < 4; ++right) {
      const Problem p = masked_problem(4, left, right);
      int most = 0;
      for (int position = 0; position < 4; ++position) most = std::max(most, seen_keys(p, {4, 20}, position).count());
      EXPECT_GE(most_keys_of_a_query(p), most) << left << ", " << right;
      EXPECT_GE(most_keys_of_all_queries(p), seen_keys(p, {4, 20}, 0, 4).count()) << left << ", " << right;
      EXPECT_LE(most_keys_of_all_queries(p), 20);
    }
}

TEST(MaskRule, MasksAreWindows) {
  EXPECT_EQ(masked_problem(4, -1, -1).mask, Mask::kNone);
  EXPECT_EQ(masked_problem(4, -1, 0).mask, Mask::kCausal);
  EXPECT_EQ(masked_problem(4, 0, 0).mask, Mask::kWindow);
  EXPECT_EQ(masked_problem(4, 3, -1).mask, Mask::kWindow);
}

}  // namespace
}  // namespace gqa

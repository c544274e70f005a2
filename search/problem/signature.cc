// signature.cc: see signature.h.
#include "search/problem/signature.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "search/problem/mask.h"

namespace gqa {
namespace {

constexpr std::int32_t kSmallestKvBucket = 16;

}  // namespace

std::int32_t bucket(std::int32_t length) {
  if (length <= 1) return length;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(length)));
  const std::int64_t between = power / 4 * 3;  // 1.5 times the power below
  const std::int64_t rounded = between >= length ? between : power;
  return static_cast<std::int32_t>(std::min<std::int64_t>(rounded, std::numeric_limits<std::int32_t>::max()));
}

Signature::Signature(const Problem& problem) : problem_(problem) {
  simplify_mask(&problem_);
  problem_.tma = problem_.tma && problem_.align == 16;
  problem_.batch = bucket(problem_.batch);
  problem_.q_len = bucket(problem_.q_len);
  problem_.kv_len = std::max(bucket(problem_.kv_len), kSmallestKvBucket);
}

}  // namespace gqa

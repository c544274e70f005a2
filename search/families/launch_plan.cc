// launch_plan.cc: see launch_plan.h.
#include "search/families/launch_plan.h"

#include "search/rounding.h"

namespace gqa {

std::int64_t row_tiles(const Problem& problem, const CandidateShape& shape) {
  return ceil_div(std::int64_t{problem.q_len} * shape.pack, std::int64_t{shape.rows} * shape.cluster);
}

std::int64_t head_groups(const Problem& problem, const CandidateShape& shape) {
  return std::int64_t{problem.batch} * (problem.q_heads / shape.pack);
}

std::int64_t head_swizzle(const Problem& problem, const CandidateShape& shape) {
  const std::int64_t groups = head_groups(problem, shape);
  if (shape.head_swizzle == 0 || shape.head_swizzle >= groups) return groups;
  std::int64_t heads = shape.head_swizzle;
  while (groups % heads != 0) --heads;
  return heads;
}

}  // namespace gqa

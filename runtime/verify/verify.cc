// verify.cc: see verify.h.
#include "runtime/verify/verify.h"

#include <algorithm>
#include <sstream>

namespace gqa {
namespace {

// The naive computation can be exact by chance (one key: its output is v itself), so a few units in the last place of
// the output's own rounding are always allowed: half a unit is 2^-9 (bf16) or 2^-12 (f16) of the largest value.
double rounding(DType dtype) { return dtype == DType::kBF16 ? 1.0 / 512 : 1.0 / 4096; }

// The log-sum-exp is float32 throughout; scores are of order 10, exp2 and log2 are good to about 2^-22.
constexpr double kLseBound = 1e-3;

std::string place(const Problem& problem, std::int64_t row) {
  std::ostringstream out;
  out << "batch " << row / problem.q_len / problem.q_heads << ", head " << row / problem.q_len % problem.q_heads
      << ", row " << row % problem.q_len;
  return out.str();
}

Verdict failed(Verdict verdict, const std::string& reason) {
  verdict.passed = false;
  verdict.reason = reason;
  return verdict;
}

}  // namespace

std::vector<std::int64_t> rows_to_check(const Problem& problem, std::int64_t most) {
  const std::int64_t all = static_cast<std::int64_t>(problem.batch) * problem.q_heads * problem.q_len;
  std::vector<std::int64_t> rows;
  if (all <= most) {
    for (std::int64_t row = 0; row < all; ++row) rows.push_back(row);
    return rows;
  }
  // Rows beside every multiple of 64 of the first and the last head: wherever a tile ends, it ends at one of these.
  const std::int64_t last_head = all - problem.q_len;
  for (std::int64_t edge = 0; edge <= problem.q_len && static_cast<std::int64_t>(rows.size()) < most / 2; edge += 64)
    for (const std::int64_t row : {edge - 1, edge})
      if (row >= 0 && row < problem.q_len) {
        rows.push_back(row);
        rows.push_back(last_head + row);
      }
  rows.push_back(all - 1);
  // The rest evenly over all heads and positions.
  const std::int64_t spread = std::max<std::int64_t>(1, most - static_cast<std::int64_t>(rows.size()));
  for (std::int64_t i = 0; i < spread; ++i)
    rows.push_back(
        static_cast<std::int64_t>(static_cast<double>(i) / static_cast<double>(spread) * static_cast<double>(all)));
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Verdict judge(const Problem& problem, const std::vector<std::int64_t>& rows, const Comparison& c) {
  Verdict verdict;
  verdict.passed = true;
  verdict.error = c.error;
  verdict.bound = 2 * std::max(c.naive_error, rounding(problem.dtype) * c.largest);
  std::ostringstream out;
  // First what explains the rest: without its counters a split never merges, and its rows stay unwritten.
  if (c.workspace > 0)
    return failed(verdict, std::to_string(c.workspace) +
                               " workspace words were written outside its bounds, or counters not left zero");
  if (c.unwritten > 0) return failed(verdict, std::to_string(c.unwritten) + " output elements were not written");
  if (c.stray > 0) return failed(verdict, std::to_string(c.stray) + " elements were written outside the output");
  if (c.nonfinite > 0)
    return failed(verdict,
                  std::to_string(c.nonfinite) + " output elements are NaN or infinite; the reference has none");
  if (!(c.error <= verdict.bound)) {
    const std::int64_t row = rows[static_cast<std::size_t>(c.worst_index / problem.head_dim_v)];
    out << "error " << c.error << " is over the bound " << verdict.bound << " at " << place(problem, row) << ", dim "
        << c.worst_index % problem.head_dim_v;
    return failed(verdict, out.str());
  }
  if (!(c.lse_error <= kLseBound)) {
    out << "log-sum-exp error " << c.lse_error << " is over the bound " << kLseBound << " at "
        << place(problem, rows[static_cast<std::size_t>(c.worst_lse_index)]);
    return failed(verdict, out.str());
  }
  return verdict;
}

}  // namespace gqa

// attention_check.cc: see attention_check.h.
#include "runtime/verify/attention_check.h"

#include <algorithm>
#include <sstream>
#include <string>

namespace gqa {
namespace {

std::string counted(std::int64_t count, const char* what) { return std::to_string(count) + " " + what; }

std::string place(const Problem& problem, std::int64_t row) {
  std::ostringstream out;
  out << "batch " << row / problem.q_len / problem.q_heads << ", head " << row / problem.q_len % problem.q_heads
      << ", row " << row % problem.q_len;
  return out.str();
}

std::vector<std::int64_t> sampled_rows(const Problem& problem, std::int64_t most) {
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

}  // namespace

std::vector<std::int64_t> rows_to_check(const Problem& p, const TrialLists& lists, std::int64_t most) {
  std::vector<std::int64_t> rows = sampled_rows(p, most);
  if (!p.q_packed()) return rows;
  const std::int64_t batch_rows = std::int64_t{p.q_heads} * p.q_len;
  for (std::int32_t sequence = 0; sequence < p.batch; ++sequence)  // each one's last
    rows.push_back(sequence * batch_rows + queries_of(p, lists, sequence) - 1);
  const auto missing = [&](std::int64_t row) {
    return row < 0 || row % p.q_len >= queries_of(p, lists, static_cast<std::int32_t>(row / batch_rows));
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), missing), rows.end());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::vector<Measured> measured(const Problem& problem, const std::vector<std::int64_t>& rows, const Comparison& c,
                               const std::string& inputs) {
  Measured workspace, out, lse;
  out.inputs = lse.inputs = inputs;
  workspace.output = "workspace";
  if (c.workspace > 0)
    workspace.stray = counted(c.workspace, "words were written outside its bounds, or counters not left zero");

  out.output = "output";
  out.unwritten = c.unwritten;
  if (c.stray > 0) out.stray = counted(c.stray, "elements were written outside it");
  if (c.nonfinite > 0) out.other_kind = counted(c.nonfinite, "elements are NaN or infinite; the reference has none");
  const auto row = [&](std::int64_t index) { return place(problem, rows[static_cast<std::size_t>(index)]); };
  const std::int64_t worst = c.rows.worst_element_at;
  out.errors = judged_rows(c.rows, row(c.rows.worst_row),
                           row(worst / problem.head_dim_v) + ", dim " + std::to_string(worst % problem.head_dim_v),
                           attention_norm(problem.out_type, c.rows.rows));
  if (!problem.lse) return {workspace, out};

  lse.output = "log-sum-exp";
  lse.errors = {{ErrorKind::kLse, row(c.worst_lse_index), c.lse_share, 1}};
  return {workspace, out, lse};
}

}  // namespace gqa

// graph_explain.cc: see graph_explain.h.
#include "runtime/api/graph_explain.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

#include "runtime/json.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::size_t kColumns = 5;
constexpr std::size_t kMostOperators = 24;  // named one by one
using Line = std::array<std::string, kColumns>;

__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...) {
  char text[160];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

std::string time_text(double microseconds) {
  if (microseconds <= 0) return "-";
  return microseconds < 1000 ? formatted("%.1f us", microseconds) : formatted("%.2f ms", microseconds / 1000);
}

std::string specs_text(const KernelGraph& graph, const std::vector<int>& tensors) {
  std::string text;
  for (const int tensor : tensors) {
    const TensorSpec& spec = graph.spec(tensor);
    text += (text.empty() ? "" : ", ") + std::string(name(spec.type)) + to_text(spec.dims);
    if (!spec.strides.empty()) text += " strides " + to_text(spec.strides);
  }
  return text;
}

std::string graph_text(const KernelGraph& graph, const Digest& digest) {
  std::string operators;
  const std::size_t count = graph.nodes().size();
  for (std::size_t at = 0; at < std::min(count, kMostOperators); ++at)
    operators += (at == 0 ? "" : ", ") + std::string(name(graph.nodes()[at].op));
  if (count > kMostOperators) operators += ", ...";
  return "graph " + to_text(digest) + "\n  inputs    " + specs_text(graph, graph.inputs()) + "\n  outputs   " +
         specs_text(graph, graph.outputs()) + "\n  operators " + std::to_string(count) + ": " + operators + "\n";
}

std::string source_text(const GraphAnswer& answer) {
  switch (answer.origin) {
    case Origin::kCache:
      return "from the cache: nothing was searched, compiled or timed for it now; this is what was kept with it\n";
    case Origin::kMemory:
      return "known to this handle already: nothing was searched, compiled or timed for it now\n";
    default:
      return "";
  }
}

std::string search_text(const Json& evidence) {
  const Json search = evidence.value("search", Json::object());
  std::string text = formatted("searched in %.2f s, proved in %.2f s\n", search.value("search_seconds", 0.0),
                               search.value("proof_seconds", 0.0));
  for (const Json& stage : search.value("stages", Json::array())) {
    text += "  " + stage.value("what", "") + ": " + grouped(stage.value("explored", std::int64_t{0})) + " explored, " +
            grouped(stage.value("kept", std::int64_t{0})) + " kept\n";
    const Json pruned = stage.value("pruned", Json::object());
    for (const auto& [reason, count] : pruned.items())
      text += "    " + grouped(count.get<std::int64_t>()) + " pruned: " + reason + "\n";
  }
  if (!search.value("exhausted", true)) text += "  rewriting stopped at its bound\n";
  return text + "  proved equal to the graph over finite fields: " + grouped(search.value("proved", std::int64_t{0})) +
         " programs\n";
}

std::string numbers_text(double error, double bound) {
  return bound > 0 ? formatted("%.2g of %.2g", error, bound) : "-";
}

Line line_of(const Json& attempt) {
  return {attempt.value("outcome", ""), time_text(attempt.value("median_us", 0.0)),
          time_text(attempt.value("predicted_us", 0.0)),
          numbers_text(attempt.value("error", 0.0), attempt.value("bound", 0.0)), attempt.value("candidate", "")};
}

std::string table_text(const std::vector<Line>& lines) {
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines)
    for (std::size_t at = 0; at < kColumns; ++at) widths[at] = std::max(widths[at], line[at].size());
  std::string text;
  for (const Line& line : lines) {
    text += "  ";
    for (std::size_t at = 0; at + 1 < kColumns; ++at)
      text += line[at] + std::string(widths[at] + 2 - line[at].size(), ' ');
    text += line[kColumns - 1] + "\n";
  }
  return text;
}

std::string measured_text(const Json& evidence) {
  const Json attempts = evidence.value("attempts", Json::array());
  std::vector<Line> lines = {{"outcome", "time", "predicted", "error", "program"}};
  for (const Json& attempt : attempts) lines.push_back(line_of(attempt));
  // The winner, then by time; what has none is last.
  std::stable_sort(lines.begin() + 1, lines.end(),
                   [](const Line& a, const Line& b) { return (a[0] == "winner") > (b[0] == "winner"); });
  const auto untried = evidence.value("not_tried", Json::object()).value("count", 0);
  return formatted("programs tried: %zu; not tried: %d\n", attempts.size(), untried) + table_text(lines);
}

std::string times_text(const Json& evidence) {
  const Json seconds = evidence.value("seconds", Json::object());
  return formatted("search %.2f s, compiling %.2f s, verification %.2f s, timing %.2f s\n",
                   seconds.value("search", 0.0), seconds.value("compile", 0.0), seconds.value("verify", 0.0),
                   seconds.value("time", 0.0));
}

// Whether the winner did not pass as a whole, and its operators did one by one.
bool by_parts(const Json& evidence) {
  const Json attempts = evidence.value("attempts", Json::array());
  return std::any_of(attempts.begin(), attempts.end(), [](const Json& attempt) {
    return attempt.value("outcome", "") == "winner" && attempt.value("by_parts", false);
  });
}

// Older evidence does not say so; an error over its bound does.
std::string error_text(const cache::WinnerRow& row, bool by_parts) {
  return formatted("%.3g, at most %.3g was allowed", row.error, row.bound) +
         (by_parts || row.error > row.bound
              ? ": nothing passed, so these are the graph's operators, each verified by itself"
              : "");
}

std::string winner_text(const GraphAnswer& answer, bool by_parts) {
  const cache::WinnerRow& row = answer.ready->winner;
  return "winner: " + describe(answer.program) + "\n  threads   " + thread_text(answer.program) + "\n  time      " +
         (row.median_us > 0 ? time_text(row.median_us) + ", spread " + time_text(row.spread_us) : "not measured") +
         "\n  error     " + error_text(row, by_parts) + "\n  device    " + row.key.device + "\n";
}

}  // namespace

std::string explain(const KernelGraph& graph, const GraphAnswer& answer) {
  std::string text = graph_text(graph, answer.canonical.digest) + source_text(answer);
  const Json evidence = Json::parse(answer.ready->winner.evidence, nullptr, false);
  bool operators = false;
  try {
    if (evidence.is_object()) {
      text += search_text(evidence) + measured_text(evidence) + times_text(evidence);
      operators = by_parts(evidence);
    }
  } catch (const Json::exception&) {
    text += "the evidence kept with it was written by another version and cannot be read\n";
  }
  return text + winner_text(answer, operators);
}

}  // namespace gqa

// report.cc: see report.h.
#include "tools/cache/report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "search/text.h"
#include "tools/cache/charts.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr std::size_t kFinalists = 8;  // whose samples are shown
constexpr std::size_t kUnfolded = 6;   // whose errors by row are seen without a click
constexpr double kErrorsEnd = 1.25;    // times what is allowed: where bars of errors end
constexpr double kInSight = 4;         // times the fastest candidate's time: where bars and strips end

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --text: #1b1f24; --quiet: #57606a; --page: #ffffff; --card: #f6f8fa; --line: #d0d7de;
  --other: #7aa7d9; --chosen: #1a7f37; --mark: #bc4c00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --quiet: #9aa4af; --page: #0d1117; --card: #161b22;
  --line: #30363d; --other: #5f95d6; --chosen: #3fb950; --mark: #f0883e; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 84rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; margin: 0.3rem 0; }
h2 { font-size: 1.05rem; margin: 0 0 0.4rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
p.note, small { color: var(--quiet); }
main { columns: 32rem; column-gap: 1rem; }
section { break-inside: avoid; margin: 0 0 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.9rem; min-width: 0; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.15rem 0.9rem; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
ol, ul { list-style: none; margin: 0; padding: 0; }
li { margin: 0 0 0.6rem; }
.row { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
.row b { font-weight: 600; white-space: nowrap; }
.kinds { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 0.2rem 1rem; margin: 0.2rem 0 0; }
.kinds small { display: block; overflow-wrap: anywhere; }
svg { display: block; }
svg.meter { width: 100%; height: 10px; margin: 0.15rem 0; }
svg.strip { width: 100%; height: 22px; }
svg.scatter { width: 100%; max-width: 36rem; height: auto; margin: 0 auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--quiet); }
.track { fill: var(--line); }
.other { fill: var(--other); }
.chosen { fill: var(--chosen); }
.mark, .middle, .sample { fill: none; vector-effect: non-scaling-stroke; }
.mark { stroke: var(--mark); stroke-width: 3; }
.sample { stroke: var(--other); stroke-width: 1.5; opacity: 0.75; }
.middle { stroke: var(--chosen); stroke-width: 3; }
.grid { stroke: var(--line); }
.equal { stroke: var(--quiet); stroke-dasharray: 4 4; }
.failed { color: var(--bad); }
summary { cursor: pointer; color: var(--quiet); }
)";

// ---- pieces

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  return "<section>\n<h2>" + escaped(title) + "</h2>\n" + (note.empty() ? "" : "<p class=\"note\">" + note + "</p>\n") +
         body + "</section>\n";
}

std::string fact(const char* name, const std::string& value) {
  return value.empty() ? "" : "<dt>" + std::string(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
}

std::string code(const std::string& text) { return "<code>" + escaped(text) + "</code>"; }

// What is named and its number in one row, over a bar.
std::string bar_item(const std::string& named, const std::string& value, const std::string& drawn,
                     const std::string& below) {
  return "<li><div class=\"row\">" + named + "<b>" + escaped(value) + "</b></div>\n" + drawn +
         (below.empty() ? "" : "<small>" + below + "</small>") + "</li>\n";
}

bool won(const Json& attempt) { return text_of(attempt, "outcome") == "winner"; }

// The attempts with a number above 0 there, the smallest first.
std::vector<Json> sorted_by(const char* key, const std::vector<Json>& attempts) {
  std::vector<Json> sorted;
  std::copy_if(attempts.begin(), attempts.end(), std::back_inserter(sorted),
               [key](const Json& attempt) { return number_of(attempt, key) > 0; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [key](const Json& a, const Json& b) { return number_of(a, key) < number_of(b, key); });
  return sorted;
}

std::vector<Json> attempts_of(const Json& evidence) {
  std::vector<Json> attempts;
  const auto at = evidence.find("attempts");
  if (at == evidence.end() || !at->is_array()) return attempts;
  std::copy_if(at->begin(), at->end(), std::back_inserter(attempts), [](const Json& each) { return each.is_object(); });
  return attempts;
}

// ---- sections

std::string winner_section(const cache::WinnerRow& row) {
  const std::time_t tuned = row.created;
  std::tm utc{};
  char when[32] = "";
  if (gmtime_r(&tuned, &utc) != nullptr) std::strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &utc);
  return section("Winner", "",
                 "<dl>\n" + fact("candidate", candidate_text(row)) + fact("time", measured_text(row)) +
                     fact("numbers", error_text(row.error, row.bound)) + fact("device", row.key.device) +
                     fact("compiler", compiler_text(row.compiler)) + fact("driver", row.driver) +
                     fact("families", row.families) + fact("search", row.key.search) + fact("tuned", when) +
                     fact("key", row.id()) + "</dl>\n");
}

std::string kernels_section(const std::vector<cache::KernelRow>& kernels) {
  std::string body;
  for (const cache::KernelRow& row : kernels) {
    body += "<dl>\n" + fact("kernel", row.key) + fact("candidate", row.candidate) + fact("family", row.family);
    if (row.registers > 0)  // the host counts none
      body += fact("resources", counted(row.registers, "register") + ", " + bytes_text(row.spill_bytes) + " spilled, " +
                                    bytes_text(row.static_smem) + " of static shared memory");
    body += "</dl>\n";
  }
  return body.empty() ? "" : section(kernels.size() == 1 ? "Kernel" : "Kernels", "", body);
}

std::string below_time(const Json& attempt, double best) {
  const double median = number_of(attempt, "median_us"), predicted = number_of(attempt, "predicted_us");
  std::string text = escaped(text_of(attempt, "outcome"));
  char slower[32];
  std::snprintf(slower, sizeof(slower), ", %.2f x", median / best);
  const std::string detail = text_of(attempt, "detail");
  if (!won(attempt) && detail.empty()) text += slower;
  if (predicted > 0) text += " \u00b7 predicted " + time_text(predicted);
  text += " \u00b7 spread " + time_text(number_of(attempt, "spread_us")) + " \u00b7 " +
          counted(static_cast<std::int64_t>(number_of(attempt, "samples")), "sample");
  return detail.empty() ? text : text + " \u00b7 " + escaped(detail);
}

std::string times_section(const std::vector<Json>& attempts) {
  const std::vector<Json> timed = sorted_by("median_us", attempts);
  if (timed.empty()) return section("Candidates by time", "Nothing was timed.", "");
  const double best = number_of(timed.front(), "median_us");
  const double most = std::min(number_of(timed.back(), "median_us"), kInSight * best);
  std::string body = "<ol>\n";
  for (const Json& attempt : timed) {
    const double median = number_of(attempt, "median_us"), predicted = number_of(attempt, "predicted_us");
    body +=
        bar_item(code(text_of(attempt, "candidate")), time_text(median),
                 meter(median / most, predicted > 0 ? predicted / most : -1, won(attempt)), below_time(attempt, best));
  }
  return section(
      "Candidates by time",
      "Bars are medians, none longer than four times the fastest; the upright mark is what the cost model had "
      "predicted, where it is in sight.",
      body + "</ol>\n");
}

std::string prediction_section(const std::vector<Json>& attempts) {
  std::vector<Point> points;
  for (const Json& attempt : attempts)
    points.push_back({number_of(attempt, "predicted_us"), number_of(attempt, "median_us"),
                      text_of(attempt, "candidate"), won(attempt)});
  const std::string plot = scatter(points, "predicted", "measured");
  if (plot.empty()) return "";
  return section("Measured and predicted",
                 "On the dashed line both are equal. The larger point is the winner. Both axes are logarithmic.", plot);
}

std::vector<double> samples_of(const Json& attempt) {
  std::vector<double> samples;
  const auto at = attempt.find("timings_us");
  if (at == attempt.end() || !at->is_array()) return samples;
  for (const Json& each : *at) {
    if (each.is_number()) samples.push_back(each.get<double>());
  }
  return samples;
}

// Who was sampled most came furthest in the race.
std::string samples_section(const std::vector<Json>& attempts) {
  std::vector<Json> finalists = sorted_by("median_us", attempts);
  std::erase_if(finalists, [](const Json& attempt) { return samples_of(attempt).empty(); });
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Json& a, const Json& b) { return samples_of(a).size() > samples_of(b).size(); });
  finalists.resize(std::min(finalists.size(), kFinalists));
  if (finalists.empty()) return "";
  double from = samples_of(finalists.front()).front(), to = from;
  for (const Json& attempt : finalists) {
    for (const double sample : samples_of(attempt)) {
      from = std::min(from, sample);
      to = std::max(to, sample);
    }
  }
  to = std::min(to, kInSight * number_of(sorted_by("median_us", finalists).front(), "median_us"));
  std::string body = "<ol>\n";
  for (const Json& attempt : finalists) {
    const std::vector<double> samples = samples_of(attempt);
    body += bar_item(code(text_of(attempt, "candidate")), counted(static_cast<std::int64_t>(samples.size()), "sample"),
                     strip(samples, from, to, number_of(attempt, "median_us")), "");
  }
  return section("Samples of the finalists",
                 "Each stroke is one run, the bold one the median; the lines go from " + time_text(from) + " to " +
                     time_text(to) + ", where what took longer stands, too.",
                 body + "</ol>\n");
}

std::string errors_section(const std::vector<Json>& attempts) {
  const std::vector<Json> judged = sorted_by("bound", attempts);
  if (judged.empty()) return "";
  std::string body = "<ol>\n";
  for (const Json& attempt : judged) {
    const double error = number_of(attempt, "error"), bound = number_of(attempt, "bound");
    const bool failed = text_of(attempt, "outcome") == "verify failed";
    const std::string detail =
        failed ? "<span class=\"failed\">" + escaped(text_of(attempt, "detail")) + "</span>" : "";
    body += bar_item(code(text_of(attempt, "candidate")), error_text(error, bound),
                     meter(error / (kErrorsEnd * bound), 1 / kErrorsEnd, won(attempt)), detail);
  }
  return section(
      "Errors",
      "What is closest to its bound, against the error of the naive computation in the same type. The mark is "
      "what is allowed. The wrong row of a candidate that was refused is named.",
      body + "</ol>\n");
}

// The error of each kind that is closest to its bound; evidence of older files has none.
std::vector<Json> errors_of(const Json& attempt) {
  std::vector<Json> errors;
  const auto at = attempt.find("errors");
  if (at == attempt.end() || !at->is_array()) return errors;
  std::copy_if(at->begin(), at->end(), std::back_inserter(errors), [](const Json& each) {
    return each.is_object() && each.contains("error") && each["error"].is_number() && number_of(each, "bound") > 0;
  });
  return errors;
}

double share_of_bound(const Json& error) { return number_of(error, "error") / number_of(error, "bound"); }

double largest_share(const Json& attempt) {
  double largest = 0;
  for (const Json& error : errors_of(attempt)) largest = std::max(largest, share_of_bound(error));
  return largest;
}

// "82 %" over its bar, and where that is.
std::string kind_of_error(const Json& error, bool chosen) {
  const double share = share_of_bound(error);
  char percent[32], sizes[64];
  std::snprintf(percent, sizeof(percent), "%.3g %%", 100 * share);
  std::snprintf(sizes, sizeof(sizes), "%.3g of %.3g", number_of(error, "error"), number_of(error, "bound"));
  return "<div><div class=\"row\"><span>" + escaped(text_of(error, "what")) + "</span><b" +
         (share > 1 ? " class=\"failed\"" : "") + ">" + percent + "</b></div>\n" +
         meter(share / kErrorsEnd, 1 / kErrorsEnd, chosen) + "<small>" + sizes + " \u00b7 " +
         escaped(text_of(error, "where")) + "</small></div>\n";
}

std::string kinds_item(const Json& attempt) {
  const bool refused = text_of(attempt, "outcome") == "verify failed";
  const auto parts = attempt.find("by_parts");
  std::string body = "<li><div class=\"row\">" + code(text_of(attempt, "candidate")) + "<b" +
                     (refused ? " class=\"failed\"" : "") + ">" + escaped(text_of(attempt, "outcome")) + "</b></div>\n";
  if (parts != attempt.end() && *parts == true)
    body += "<small>It did not pass as a whole; each of its operators passed by itself.</small>\n";
  body += "<div class=\"kinds\">\n";
  for (const Json& error : errors_of(attempt)) body += kind_of_error(error, won(attempt));
  return body + "</div></li>\n";
}

// The winner, then who came closest to a bound, or went over it.
std::string rows_section(const std::vector<Json>& attempts) {
  std::vector<Json> judged = attempts;
  std::erase_if(judged, [](const Json& attempt) { return errors_of(attempt).empty(); });
  if (judged.empty()) return "";
  std::stable_sort(judged.begin(), judged.end(), [](const Json& a, const Json& b) {
    return std::make_pair(won(a), largest_share(a)) > std::make_pair(won(b), largest_share(b));
  });
  std::string seen, folded;
  for (std::size_t i = 0; i < judged.size(); ++i) (i < kUnfolded ? seen : folded) += kinds_item(judged[i]);
  if (!folded.empty())
    folded = "<details><summary>" + counted(static_cast<std::int64_t>(judged.size() - kUnfolded), "more candidate") +
             "</summary>\n<ol>\n" + folded + "</ol></details>\n";
  return section("Errors by row",
                 "Shares of what is allowed, each where it was largest, of all inputs that were tried. All rows: the "
                 "root mean square of their errors. Worst row: its error's norm. Both, and the worst element, are in "
                 "units of the naive computation's error; log-sum-exp is in units of what float32 may be off by. The "
                 "mark is what is allowed.",
                 "<ol>\n" + seen + "</ol>\n" + folded);
}

// "tile of # rows for # query rows": 20, as bars, with those that are known by name behind a fold.
std::string reasons_list(const Json& told) {
  std::vector<std::pair<double, std::string>> reasons;
  if (const auto at = told.find("by_reason"); at != told.end() && at->is_object()) {
    for (const auto& [reason, count] : at->items()) {
      if (count.is_number()) reasons.emplace_back(count.get<double>(), reason);
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string body = "<ol>\n";
  for (const auto& [count, reason] : reasons) {
    body += bar_item("<span>" + escaped(reason) + "</span>", grouped(static_cast<std::int64_t>(count)),
                     meter(count / reasons.front().first, -1, false), "");
  }
  body += "</ol>\n";
  const auto listed = told.find("listed");
  if (listed == told.end() || !listed->is_array() || listed->empty()) return body;
  body += "<details><summary>" + counted(static_cast<std::int64_t>(listed->size()), "candidate") +
          " by name</summary>\n<ul>\n";
  for (const Json& each : *listed) {
    if (!each.is_object()) continue;
    body += "<li>" + code(text_of(each, "candidate")) + "<br><small>" + escaped(text_of(each, "reason")) +
            "</small></li>\n";
  }
  return body + "</ul></details>\n";
}

std::string untried_section(const Json& evidence, const char* key, const std::string& title, const std::string& note) {
  const auto at = evidence.find(key);
  if (at == evidence.end() || !at->is_object() || number_of(*at, "count") <= 0) return "";
  const auto count = static_cast<std::int64_t>(number_of(*at, "count"));
  return section(title + ": " + grouped(count), note, reasons_list(*at));
}

// Tried, and neither timed nor the winner: it spilled, did not compile, was wrong.
std::string failures_section(const std::vector<Json>& attempts) {
  std::string body;
  for (const Json& attempt : attempts) {
    if (won(attempt) || number_of(attempt, "median_us") > 0) continue;
    body += "<li>" + code(text_of(attempt, "candidate")) + "<br><small><span class=\"failed\">" +
            escaped(text_of(attempt, "outcome")) + "</span> " + escaped(text_of(attempt, "detail")) + "</small></li>\n";
  }
  return body.empty() ? "" : section("Tried and not timed", "", "<ul>\n" + body + "</ul>\n");
}

std::string seconds_section(const Json& evidence) {
  const auto at = evidence.find("seconds");
  if (at == evidence.end() || !at->is_object()) return "";
  double whole = 0;
  for (const char* phase : {"search", "compile", "verify", "time"}) whole += number_of(*at, phase);
  if (!(whole > 0)) return "";
  std::string body = "<ol>\n";
  for (const char* phase : {"search", "compile", "verify", "time"}) {
    const double seconds = number_of(*at, phase);
    body += bar_item("<span>" + std::string(phase) + "</span>", seconds_text(seconds),
                     meter(seconds / whole, -1, false), "");
  }
  return section("Where the seconds went", "", body + "</ol>\n");
}

std::string sections(const cache::WinnerRow& row, const std::vector<cache::KernelRow>& kernels) {
  const Json evidence = evidence_of(row);
  const std::vector<Json> attempts = attempts_of(evidence);
  std::string text = winner_section(row);
  if (attempts.empty()) {
    text += section("Candidates", "The winner has no evidence of its race.", "");
  } else {
    text += times_section(attempts) + prediction_section(attempts) + samples_section(attempts) +
            errors_section(attempts) + rows_section(attempts) + failures_section(attempts);
  }
  text += untried_section(evidence, "pruned", "Refused before they were compiled", "What cannot be, or cannot pay.") +
          untried_section(evidence, "not_tried", "Not tried", "") + seconds_section(evidence) +
          kernels_section(kernels);
  if (is_graph(row)) text += section("Program", "", "<pre>" + escaped(row.candidate) + "</pre>\n");
  return text;
}

}  // namespace

std::string report(const cache::WinnerRow& row, const std::vector<cache::KernelRow>& kernels) {
  const std::string title = escaped(short_shape(row)), arch = escaped(arch_of(row));
  return std::string(kReportMark) + "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + title + " on " + arch +
         "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n<p class=\"note\">" +
         "A tuning of gqa on " + arch + ".</p>\n<main>\n" + sections(row, kernels) + "</main>\n</body>\n</html>\n";
}

}  // namespace gqa::tools

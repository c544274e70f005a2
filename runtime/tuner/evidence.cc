// evidence.cc: why a winner won, as JSON; see attempt.h.
// Owns: the text kept with a winner: every option tried with its timings, errors and reason; those pruned or never
// tried counted by reason, with the first few by name.
// Never: decides anything.
// Threads: pure functions.
#include <cctype>
#include <cmath>
#include <map>

#include "runtime/json.h"
#include "runtime/tuner/attempt.h"

namespace gqa {
namespace {

constexpr std::size_t kListed = 64;  // of those pruned, named one by one

// Whole nanoseconds: more digits are noise and bytes.
double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }

// "needs 245,760 bytes of shared memory" and "needs 98,304 bytes ..." are one reason: "needs # bytes ...".
std::string without_numbers(const std::string& reason) {
  std::string general;
  for (const char c : reason) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool separator = (c == ',' || c == '.') && !general.empty() && general.back() == '#';
    if (!digit && !separator) {
      general += c;
    } else if (general.empty() || general.back() != '#') {
      general += '#';
    }
  }
  return general;
}

bool tried(const Attempt& attempt) { return attempt.outcome != "pruned" && attempt.outcome != "not tried"; }

// What a workload tells as text: an object, or nothing.
void add(const std::string& told, Json* json) {
  const Json object = Json::parse(told, nullptr, false);
  if (object.is_object()) json->update(object);
}

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kAllRows:
      return "all rows";
    case ErrorKind::kRow:
      return "worst row";
    case ErrorKind::kElement:
      return "worst element";
    case ErrorKind::kLse:
      break;
  }
  return "log-sum-exp";
}

Json errors_json(const std::vector<Share>& errors) {
  Json list = Json::array();
  for (const Share& one : errors)
    list.push_back({{"what", name_of(one.kind)}, {"where", one.where}, {"error", one.error}, {"bound", one.bound}});
  return list;
}

Json tried_json(const Attempt& attempt) {
  Json json = {{"candidate", attempt.name}, {"outcome", attempt.outcome}};
  if (!attempt.detail.empty()) json["detail"] = attempt.detail;
  json["predicted_us"] = rounded(attempt.predicted_us);
  if (attempt.samples > 0) {
    json["median_us"] = rounded(attempt.median_us);
    json["spread_us"] = rounded(attempt.spread_us);
    json["samples"] = attempt.samples;
  }
  if (attempt.bound > 0) {
    json["error"] = attempt.error;
    json["bound"] = attempt.bound;
  }
  if (!attempt.errors.empty()) json["errors"] = errors_json(attempt.errors);
  if (attempt.by_parts) json["by_parts"] = true;
  if (!attempt.timings.empty()) {
    Json& timings = json["timings_us"] = Json::array();
    for (const double timing : attempt.timings) timings.push_back(rounded(timing));
  }
  add(attempt.notes, &json);
  return json;
}

Json untried_json(const std::vector<Attempt>& attempts, const char* outcome) {
  Json json = {{"count", 0}, {"by_reason", Json::object()}, {"listed", Json::array()}};
  int count = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.outcome != outcome) continue;
    ++count;
    Json& by_reason = json["by_reason"][without_numbers(attempt.detail)];
    by_reason = by_reason.is_null() ? 1 : by_reason.get<int>() + 1;
    if (json["listed"].size() < kListed)
      json["listed"].push_back({{"candidate", attempt.name}, {"reason", attempt.detail}});
  }
  json["count"] = count;
  return json;
}

}  // namespace

Attempt untried(const Option& option, const char* outcome, std::string detail) {
  Attempt attempt;
  attempt.name = option.name;
  attempt.predicted_us = option.predicted_us;
  attempt.outcome = outcome;
  attempt.detail = std::move(detail);
  attempt.notes = option.notes;
  return attempt;
}

void record(const Runner& runner, Attempt* attempt) {
  attempt->samples = static_cast<int>(runner.samples.size());
  attempt->timings = runner.samples;
  attempt->median_us = runner.summary.median;
  attempt->spread_us = runner.summary.spread;
  attempt->detail = runner.why_out;
  if (runner.failed) {
    attempt->outcome = "launch failed";
  } else if (!runner.samples.empty() || !runner.racing) {
    attempt->outcome = "slower";
  }
}

bool record(const Verdict& verdict, Attempt* attempt) {
  attempt->error = verdict.error;
  attempt->bound = verdict.bound;
  attempt->errors = verdict.errors;
  attempt->outcome = verdict.passed ? "untimed" : verdict.out_of_memory ? "out of memory" : "verify failed";
  attempt->detail = verdict.passed ? "" : verdict.reason;
  return verdict.passed;
}

std::string outcomes_text(const std::vector<Attempt>& attempts) {
  std::map<std::string, std::pair<int, std::string>> outcomes;
  for (const Attempt& attempt : attempts) {
    auto& [count, first] = outcomes[attempt.outcome];
    if (count++ == 0) first = attempt.name + ": " + attempt.detail;
  }
  std::string text;
  for (const auto& [outcome, what] : outcomes)
    text += "; " + std::to_string(what.first) + " " + outcome + " (first " + what.second + ")";
  return text;
}

std::string evidence_json(const std::vector<Attempt>& attempts, const std::string& search, const PhaseTimes& times,
                          const Clocks& clocks, const RaceNotes& race) {
  Json json;
  Json& list = json["attempts"] = Json::array();
  for (const Attempt& attempt : attempts) {
    if (tried(attempt)) list.push_back(tried_json(attempt));
  }
  json["not_tried"] = untried_json(attempts, "not tried");
  json["pruned"] = untried_json(attempts, "pruned");
  add(search, &json);
  json["seconds"] = {{"search", times.search},
                     {"compile", times.compile},
                     {"verify", times.verify},
                     {"time", times.time},
                     {"first_correct", times.first_correct}};
  json["clock_mhz"] = {{"before", clocks.before}, {"after", clocks.after}};
  json["race"] = {{"races", race.races}, {"disturbed", race.disturbed}};
  return json_text(json);
}

}  // namespace gqa

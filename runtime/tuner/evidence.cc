// evidence.cc: why a winner won, as JSON.
// Owns: the text kept with a winner: every candidate tried with its timings, errors and reason; those pruned or never
// tried counted by reason, with the first few by name.
// Never: decides anything.
// Threads: pure functions.
#include <cctype>
#include <cmath>

#include "runtime/tuner/fates.h"

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

Json tried_json(const std::string& name, const Fate& attempt) {
  Json json = {{"candidate", name}, {"outcome", attempt.outcome}};
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
  if (!attempt.timings.empty()) {
    Json& timings = json["timings_us"] = Json::array();
    for (const double timing : attempt.timings) timings.push_back(rounded(timing));
  }
  return json;
}

Json untried_json(const std::vector<NamedFate>& fates, const char* outcome) {
  Json json = {{"count", 0}, {"by_reason", Json::object()}, {"listed", Json::array()}};
  int count = 0;
  for (const auto& [name, fate] : fates) {
    if (fate->outcome != outcome) continue;
    ++count;
    Json& by_reason = json["by_reason"][without_numbers(fate->detail)];
    by_reason = by_reason.is_null() ? 1 : by_reason.get<int>() + 1;
    if (json["listed"].size() < kListed) json["listed"].push_back({{"candidate", name}, {"reason", fate->detail}});
  }
  json["count"] = count;
  return json;
}

}  // namespace

bool tried(const Fate& fate) { return fate.outcome != "pruned" && fate.outcome != "not tried"; }

void record(const Runner& runner, Fate* fate) {
  fate->samples = static_cast<int>(runner.samples.size());
  fate->timings = runner.samples;
  fate->median_us = runner.summary.median;
  fate->spread_us = runner.summary.spread;
  fate->detail = runner.why_out;
  if (runner.failed) {
    fate->outcome = "launch failed";
  } else if (!runner.samples.empty()) {
    fate->outcome = "slower";
  }
}

bool record(const Verdict& verdict, Fate* fate) {
  fate->error = verdict.error;
  fate->bound = verdict.bound;
  fate->outcome = verdict.passed ? "untimed" : "verify failed";
  fate->detail = verdict.passed ? "" : verdict.reason;
  return verdict.passed;
}

Json fates_json(const std::vector<NamedFate>& fates) {
  Json json;
  Json& list = json["attempts"] = Json::array();
  for (const auto& [name, fate] : fates) {
    if (tried(*fate)) list.push_back(tried_json(name, *fate));
  }
  json["not_tried"] = untried_json(fates, "not tried");
  json["pruned"] = untried_json(fates, "pruned");
  return json;
}

Json seconds_json(const PhaseTimes& times) {
  return {{"search", times.search},
          {"compile", times.compile},
          {"verify", times.verify},
          {"time", times.time},
          {"first_correct", times.first_correct}};
}

Json clock_json(double before_mhz, double after_mhz) { return {{"before", before_mhz}, {"after", after_mhz}}; }

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string evidence_json(const std::vector<Attempt>& attempts, const PhaseTimes& times, double clock_mhz,
                          double clock_after_mhz) {
  std::vector<NamedFate> fates;
  for (const Attempt& attempt : attempts) fates.push_back({to_text(attempt.candidate), &attempt});
  Json json = fates_json(fates);
  json["seconds"] = seconds_json(times);
  json["clock_mhz"] = clock_json(clock_mhz, clock_after_mhz);
  return dumped(json);
}

}  // namespace gqa

// evidence.cc: why a winner won, as JSON.
// Owns: the text kept with a winner: every candidate tried with its timings, errors and reason; those pruned or never
// tried counted by reason, with the first few by name.
// Never: decides anything.
// Threads: pure functions.
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/tuner.h"

namespace gqa {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kListed = 64;  // pruned candidates named one by one

// Whole nanoseconds: more digits are noise and bytes.
double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }

bool tried(const Attempt& attempt) { return attempt.outcome != "pruned" && attempt.outcome != "not tried"; }

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

Json tried_json(const Attempt& attempt) {
  Json json = {{"candidate", to_text(attempt.candidate)}, {"outcome", attempt.outcome}};
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

Json untried_json(const std::vector<Attempt>& attempts, const char* outcome) {
  Json json = {{"count", 0}, {"by_reason", Json::object()}, {"listed", Json::array()}};
  int count = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.outcome != outcome) continue;
    ++count;
    Json& by_reason = json["by_reason"][without_numbers(attempt.detail)];
    by_reason = by_reason.is_null() ? 1 : by_reason.get<int>() + 1;
    if (json["listed"].size() < kListed) {
      json["listed"].push_back({{"candidate", to_text(attempt.candidate)}, {"reason", attempt.detail}});
    }
  }
  json["count"] = count;
  return json;
}

}  // namespace

std::string evidence_json(const std::vector<Attempt>& attempts, const PhaseTimes& times, double clock_mhz,
                          double clock_after_mhz) {
  Json json;
  Json& list = json["attempts"] = Json::array();
  for (const Attempt& attempt : attempts) {
    if (tried(attempt)) list.push_back(tried_json(attempt));
  }
  json["not_tried"] = untried_json(attempts, "not tried");
  json["pruned"] = untried_json(attempts, "pruned");
  json["seconds"] = {{"search", times.search},
                     {"compile", times.compile},
                     {"verify", times.verify},
                     {"time", times.time},
                     {"first_correct", times.first_correct}};
  json["clock_mhz"] = {{"before", clock_mhz}, {"after", clock_after_mhz}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gqa

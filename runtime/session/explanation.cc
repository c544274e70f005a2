// explanation.cc: see explanation.h.
#include "runtime/session/explanation.h"

#include <cstdio>

#include "runtime/json.h"
#include "search/families/space.h"
#include "search/problem/signature.h"

namespace gqa {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

// How many candidates were measured, by the row's evidence.
std::size_t measured(const cache::WinnerRow& row) {
  const Json evidence = Json::parse(row.evidence, nullptr, false);
  const auto attempts = evidence.is_object() ? evidence.find("attempts") : evidence.end();
  if (!evidence.is_object() || attempts == evidence.end() || !attempts->is_array()) return 0;
  std::size_t count = 0;
  for (const Json& attempt : *attempts) {
    const auto samples = attempt.find("samples");
    count += samples != attempt.end() && samples->is_number() && samples->get<double>() > 0;
  }
  return count;
}

void add_row(const Misses::Known& known, Explanation* made) {
  const cache::WinnerRow& row = known.winner;
  made->kernel = row.candidate;
  if (known.guessed) {
    made->source = "guess";
    made->reason =
        "the cost model's best, whose numbers were right, and which nobody has timed: a call that tunes, or "
        "gqa_warm, replaces it";
    return;
  }
  made->source = known.here ? "tuned" : "cache";
  made->reason = known.here ? "the fastest that was measured in this process" : "the cache holds its winner";
  if (!row.driver.empty()) made->reason += ", measured with driver " + row.driver;
  if (!row.elsewhere.empty()) made->reason += "; it came in " + row.elsewhere + " and is verified at its first use";
  made->evidence.emplace_back("median_us", row.median_us);
  made->evidence.emplace_back("spread_us", row.spread_us);
  made->evidence.emplace_back("error", row.error);
  made->evidence.emplace_back("error_bound", row.bound);
  made->evidence.emplace_back("measured_candidates", static_cast<double>(measured(row)));
}

// "3 x needs 245,760 bytes ..., 1 x ...": of what refused all candidates, each reason once.
std::string reasons(const std::vector<Rejected>& rejected) {
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<std::string, int>> counted;
  for (const Rejected& one : rejected) {
    auto at = counted.begin();
    while (at != counted.end() && at->first != one.reason) ++at;
    if (at == counted.end()) at = counted.insert(at, {one.reason, 0});
    ++at->second;
  }
  std::string text;
  for (std::size_t at = 0; at < counted.size() && at < kMost; ++at)
    text += (text.empty() ? "" : "; ") + std::to_string(counted[at].second) + " x " + counted[at].first;
  return text;
}

}  // namespace

Explanation explain(Session& session, const Problem& problem) {
  Explanation made;
  made.problem = to_text(problem);
  const DeviceSpec& device = session.device().spec();
  const Space space = enumerate(Signature(problem).problem(), device);
  if (space.ranked.empty()) {
    made.source = "refused";
    made.reason =
        "no kernel serves it on " + device.identity() + (space.rejected.empty() ? "" : ": " + reasons(space.rejected));
    made.nearest = served_call(problem, device);
    return made;
  }
  const double predicted_us = space.ranked.front().predicted_us;
  if (const std::optional<Misses::Known> known = session.known(problem)) {
    add_row(*known, &made);
  } else {
    made.source = "guess";
    made.kernel = to_text(space.ranked.front().candidate);
    made.reason =
        "nothing is known of it on this device: this is the cost model's first choice, and its first call tunes";
  }
  made.evidence.emplace_back("predicted_us", predicted_us);
  made.evidence.emplace_back("candidates", static_cast<double>(space.ranked.size()));
  made.evidence.emplace_back("refused_candidates", static_cast<double>(space.rejected.size()));
  made.evidence.emplace_back("gflop", flops(problem) * 1e-9);
  made.evidence.emplace_back("megabytes", bytes(problem) * 1e-6);
  made.nearest = faster_call(problem, device, predicted_us);
  return made;
}

std::string Explanation::text() const {
  std::string lines;
  const auto line = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) lines += name + std::string(10 - name.size(), ' ') + value + "\n";
  };
  line("problem", problem);
  line("source", source);
  line("kernel", kernel);
  line("reason", reason);
  std::string numbers;
  for (const auto& [name, value] : evidence) numbers += (numbers.empty() ? "" : ", ") + name + " " + number(value);
  line("evidence", numbers);
  if (nearest)
    line("nearest",
         nearest->change + ": " + nearest->problem + ", " + number(nearest->predicted_us) + " us by the cost model");
  return lines;
}

std::string Explanation::json() const {
  Json made = {{"problem", problem}, {"source", source}, {"kernel", kernel}, {"reason", reason}};
  made["evidence"] = Json::object();
  for (const auto& [name, value] : evidence) made["evidence"][name] = value;
  made["nearest"] = nullptr;
  if (nearest)
    made["nearest"] = {
        {"change", nearest->change}, {"problem", nearest->problem}, {"predicted_us", nearest->predicted_us}};
  return json_text(made);
}

}  // namespace gqa

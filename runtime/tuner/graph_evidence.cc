// graph_evidence.cc: why a program won, as JSON.
// Owns: the text kept with a graph's winner: the search's report, every program tried with its plan, timings, error and
// reason. Never: decides anything. Threads: pure functions.
#include "runtime/tuner/fates.h"
#include "runtime/tuner/graph_tuner.h"

namespace gqa {
namespace {

void add_reasons(const StageCount& stage, Json* json) {
  for (std::size_t at = 0; at < stage.pruned.size(); ++at) {
    if (stage.pruned[at] == 0) continue;
    Json& count = (*json)[std::string(kReasons[at])];
    count = (count.is_null() ? 0 : count.get<std::int64_t>()) + stage.pruned[at];
  }
}

Json stage_json(std::string_view what, const StageCount& stage) {
  Json json = {{"what", what}, {"explored", stage.explored}, {"kept", stage.kept}, {"pruned", Json::object()}};
  add_reasons(stage, &json["pruned"]);
  return json;
}

Json report_json(const SearchReport& report) {
  Json json = {{"stages", Json::array()}};
#define GQA_STAGE(field, text) json["stages"].push_back(stage_json(text, report.field));
  GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
  json["rules"] = report.rules;
  json["sections"] = report.sections;
  json["proved"] = report.proved;
  json["ranked"] = report.ranked;
  json["exhausted"] = report.exhausted;
  json["search_seconds"] = report.search_seconds;
  json["proof_seconds"] = report.proof_seconds;
  return json;
}

// All stages' reasons together: what `gqa-cache show` lists.
Json pruned_json(const SearchReport& report) {
  Json json = {{"count", 0}, {"by_reason", Json::object()}};
  std::int64_t count = 0;
#define GQA_STAGE(field, text)                        \
  count += report.field.explored - report.field.kept; \
  add_reasons(report.field, &json["by_reason"]);
  GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
  json["count"] = count;
  return json;
}

}  // namespace

std::string graph_evidence_json(const SearchReport& report, const std::vector<ProgramAttempt>& attempts,
                                const PhaseTimes& times, double clock_mhz, double clock_after_mhz) {
  std::vector<NamedFate> fates;
  for (const ProgramAttempt& attempt : attempts) fates.push_back({attempt.program + " | " + attempt.threads, &attempt});
  Json json = fates_json(fates);
  std::size_t at = 0;
  for (const ProgramAttempt& attempt : attempts) {
    if (!tried(attempt)) continue;
    Json& one = json["attempts"][at++];
    one["program"] = attempt.program;
    one["threads"] = attempt.threads;
    one["safe"] = attempt.safe;
    one["rules"] = attempt.rules;
  }
  json["pruned"] = pruned_json(report);
  json["search"] = report_json(report);
  json["seconds"] = seconds_json(times);
  json["clock_mhz"] = clock_json(clock_mhz, clock_after_mhz);
  return dumped(json);
}

}  // namespace gqa

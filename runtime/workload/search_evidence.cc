// search_evidence.cc: see search_evidence.h.
#include "runtime/workload/search_evidence.h"

#include <string_view>

#include "runtime/json.h"

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

std::string search_evidence(const SearchReport& report) {
  return json_text({{"pruned", pruned_json(report)}, {"search", report_json(report)}});
}

std::string program_notes(const Contender& contender) {
  const KernelGraph& program = contender.plan.program;
  return json_text({{"program", describe(program)},
                    {"threads", thread_text(program)},
                    {"safe", contender.safe},
                    {"rules", contender.rules}});
}

}  // namespace gqa

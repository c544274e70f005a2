// search_report.cc: see search_report.h.
#include "search/graph/search_report.h"

#include "search/text.h"

namespace gqa {
namespace {

std::string stage_text(std::string_view what, const StageCount& stage) {
  std::string text = std::string(what) + ": " + grouped(stage.explored) + " explored, " + grouped(stage.kept) + " kept";
  for (std::size_t at = 0; at < stage.pruned.size(); ++at) {
    if (stage.pruned[at] > 0) text += "; " + grouped(stage.pruned[at]) + " " + std::string(kReasons[at]);
  }
  return text + "\n";
}

}  // namespace

std::string to_text(const SearchReport& report) {
  std::string text;
#define GQA_STAGE(field, what) text += stage_text(what, report.field);
  GQA_SEARCH_STAGES(GQA_STAGE)
#undef GQA_STAGE
  for (const auto& [rule, count] : report.rules) text += "rule " + rule + ": " + grouped(count) + "\n";
  text += "sections: " + grouped(report.sections) + "\n";
  if (!report.exhausted) text += "rewriting stopped at its bound\n";
  return text + "proved equal: " + grouped(report.proved) + ", ranked: " + grouped(report.ranked) + "\n";
}

}  // namespace gqa

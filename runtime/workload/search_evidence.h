// search_evidence.h: what a search looked at and what it found, as JSON's text.
// Owns: "search", the report stage by stage, and "pruned", all stages' reasons together, which `gqa-cache show` lists;
// what is told of a program.
// Never: decides anything.
// Threads: pure functions.
#pragma once

#include <string>

#include "runtime/workload/contenders.h"
#include "search/graph/search_report.h"

namespace gqa {

std::string search_evidence(const SearchReport& report);
std::string program_notes(const Contender& contender);

}  // namespace gqa

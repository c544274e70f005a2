// search_evidence.h: what a search looked at, as JSON.
// Owns: "search", the report stage by stage, and "pruned", all stages' reasons together, which `gqa-cache show` lists.
// Never: decides anything.
// Threads: pure functions.
#pragma once

#include "runtime/workload/workload.h"
#include "search/graph/search_report.h"

namespace gqa {

Json search_evidence(const SearchReport& report);

}  // namespace gqa

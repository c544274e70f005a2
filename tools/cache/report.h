// report.h: a tuning as a page.
// Owns: the HTML of a winner with its evidence: candidates by time, what the cost model had predicted, samples of the
// finalists, errors by kind and place, and what was refused and why.
// Never: loads anything from elsewhere or runs a script; writes a file.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"

namespace gqa::tools {

// How every report begins: what may be written over.
inline constexpr std::string_view kReportMark = "<!doctype html>\n<!-- gqa-cache show --html -->\n";

// Self-contained, for light and dark, for narrow and wide windows. `kernels`: the winner's.
std::string report(const cache::WinnerRow& row, const std::vector<cache::KernelRow>& kernels);

}  // namespace gqa::tools

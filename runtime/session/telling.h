// telling.h: what a session's log says of a tuning, while it lasts and in the end.
// Owns: the words, and how often they come: at the start, then with the first progress a second later, and so on.
// Never: knows who listens.
// Threads: one tuning's.
#pragma once

#include <functional>
#include <string>

#include "runtime/session/misses.h"
#include "runtime/tuner/tuner.h"

namespace gqa {

// "search", "compile 3 of 12 kernels", "verify 4 of 20 candidates", "race, 5 timed, best 15,021.3 us".
std::string to_text(const Progress& progress);

// Calls `tell` with lines about `name`, then `next` with all progress; both may be empty.
ProgressFn telling(std::string name, double budget_seconds, std::function<void(const std::string&)> tell,
                   ProgressFn next);

// What came of it. disturbed: why the next process races again; "": it does not.
std::string outcome_line(const std::string& name, bool guessed, const ReadyResult& readied,
                         const std::string& disturbed);

}  // namespace gqa

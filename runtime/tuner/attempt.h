// attempt.h: what became of one option, and of all of them as evidence.
// Owns: Attempt; what a race, a verdict or a failure makes of it; PhaseTimes; the evidence as JSON.
// Never: decides who wins.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/tuner/halving.h"
#include "runtime/workload/workload.h"

namespace gqa {

struct Attempt {
  std::string name;  // Option::name
  double predicted_us = 0;
  // "winner", "slower", "untimed", "spilled", "compile failed", "load failed", "verify failed", "launch failed",
  // "out of memory", "not tried" (ranked too low, or no budget left), "pruned", "not proved"; of precompile:
  // "compiled", "in the cache already"
  std::string outcome;
  std::string detail;  // the reason, the worst element, the compiler's first error line
  double median_us = 0, spread_us = 0;
  double error = 0, bound = 0;
  std::vector<Share> errors;  // Verdict::errors
  bool by_parts = false;      // it did not pass as a whole; each of Option::parts passed by itself
  int samples = 0;
  std::vector<double> timings;  // microseconds, all of them, in the order taken
  std::string notes;            // Option::notes
};

inline constexpr const char* kBudgetSpent = "the budget was spent";  // a detail of "not tried"

// Seconds. Compilation runs beside verification, so `compile` is what the tuner waited for compilers: the phases add up
// to the miss.
struct PhaseTimes {
  double search = 0, compile = 0, verify = 0, time = 0, persist = 0;
  double first_correct = 0;  // from the miss to the first option that verified
};

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Attempt untried(const Option& option, const char* outcome, std::string detail);
void record(const Runner& runner, Attempt* attempt);
// False: it did not pass.
bool record(const Verdict& verdict, Attempt* attempt);

// Every outcome with its count and the first reason: "; 3 verify failed (first ...: ...)".
std::string outcomes_text(const std::vector<Attempt>& attempts);

// Clocks in MHz before and after timing; 0: not known.
struct Clocks {
  double before = 0, after = 0;
};

// How often the options raced, and what disturbed the last race; "": nothing.
struct RaceNotes {
  int races = 0;
  std::string disturbed;
};

// What cache::WinnerRow::evidence holds: {"attempts": [...], "not_tried": {...}, "pruned": {...}, "seconds": {...},
// "clock_mhz": {...}, "race": {...}} and what the search has to tell (Options::evidence). Those tried come with all
// that was measured; the others are counted by reason, the first few by name.
std::string evidence_json(const std::vector<Attempt>& attempts, const std::string& search, const PhaseTimes& times,
                          const Clocks& clocks, const RaceNotes& race);

}  // namespace gqa

// fates.h: what the tuners of attention and of graphs share about those they try.
// Owns: what a race, a verdict or a failure makes of a fate; the JSON of fates; the shares of the budget.
// Never: decides who wins.
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/tuner/halving.h"
#include "runtime/tuner/tuner.h"

namespace gqa {

using Json = nlohmann::ordered_json;

constexpr int kMostAttempts = 32;  // verified at most
constexpr int kGuesses = 3;        // kernels or programs that a guess compiles at most
// Shares of the budget after which no further kernel is compiled, none further verified: timing gets the rest.
constexpr double kCompileShare = 0.6, kVerifyShare = 0.8;

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool tried(const Fate& fate);
void record(const Runner& runner, Fate* fate);
// False: it did not pass.
bool record(const Verdict& verdict, Fate* fate);

struct NamedFate {
  std::string name;
  const Fate* fate;
};

// {"attempts": [...], "not_tried": {...}, "pruned": {...}}: those tried with all that was measured; the others counted
// by reason, the first few by name.
Json fates_json(const std::vector<NamedFate>& fates);
Json seconds_json(const PhaseTimes& times);
Json clock_json(double before_mhz, double after_mhz);
// Text that is not UTF-8 (a compiler's message) does not throw.
std::string dumped(const Json& json);

}  // namespace gqa

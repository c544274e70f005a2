// judgement.h: when a program's numbers are right: one rule, for attention and graphs, on every device.
// Owns: the bound, at most twice the error of the naive computation in the same type, or twice the type's own rounding
// where that is more; every element written and finite as the reference is, nothing written elsewhere; the words of a
// refusal; how several runs of one program become one verdict.
// Never: computes, compares or runs anything; what it judges was measured elsewhere.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace gqa {

// What one run left in one output. Words name places, and what was found there.
struct Measured {
  std::string output;           // what a refusal calls it
  std::int64_t unwritten = 0;   // elements that still hold the poison
  std::string first_unwritten;  // "": not known
  std::string stray;            // what was written where nothing of the output is; "": nothing
  std::string other_kind;       // what is finite where the reference is not, or the other way; "": nothing
  double error = 0;             // max |output - reference| over the elements compared; a NaN passes no bound
  std::string worst;            // the element that has it
  double naive_error = 0;       // of the naive computation in the output's type
  double largest = 0;           // max |reference|
  double rounding = 0;          // half a unit in the last place of the output's type at 1
};

// The naive computation can be exact by chance (one key: its output is v itself), so the type's rounding is always
// allowed.
double bound(const Measured& output);

// Refuses in the words of the first output with a fault. Error and bound are those of the output that is closest to
// its bound, or farthest over it.
Verdict judge(const std::vector<Measured>& outputs);

// Runs the program for the run'th time, of those that a trial has for it, and measures what it left.
using MeasureRun = std::function<Status(std::size_t run, std::vector<Measured>* outputs)>;

// All runs, judged: the first that fails, else the one closest to its bound. A run that comes to nothing fails in the
// words of its status.
Verdict verify(std::size_t runs, const MeasureRun& measure);

}  // namespace gqa

// judgement.h: when a program's numbers are right: one rule, for attention and graphs, on every device.
// Owns: what a row's errors are measured in, the bounds, every element written and finite as the reference is, nothing
// written elsewhere; the words of a refusal; how several runs of one program become one verdict.
// Never: computes, compares or runs anything; what it judges was measured elsewhere.
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "search/graph/ir/tensor.h"

namespace gqa {

// A row is judged by itself. The unit of its errors is the norm of the error of the naive computation in the output's
// type (attention: FlashAttention-2's stand-in, exact maximum, float32, weights rounded for the second product), or
// what rounding to that type makes of a row of this norm, where that is more: the naive computation can be exact by
// chance (one key: its output is v itself). A row that is zero, in the naive computation too, has no unit, and must be
// zero.

// What errors may be, in units.
struct Factors {
  double row = 0;      // the norm of one row's error
  double largest = 0;  // the largest error of an element
  double norm = 0;     // the root mean square over all rows: chance is averaged away, so an arithmetic is held to this
};

// On the emulator, the space's kernels reach at most 1.02 over all rows, 2.3 in the worst row and 3.5 of the worst
// element. Exact arithmetics by calculation, a thousand seeds of 192 rows: 1.01, 1.6 and 3.9. Every eighth weight off
// by 1 % makes 1.57 and more over all rows in bfloat16, 11 in float16. Where one key carries a row, the stand-in's
// weight for it is 1, exactly, and that of a kernel with another maximum is rounded: up to 3 in a row.
inline constexpr Factors kFactors = {5, 7, 1.25};
// Log-sum-exp's error, relative or absolute, whichever is more: float32's in scores of order 10 and more.
inline constexpr double kLseRelative = 2e-6, kLseAbsolute = 2e-5;
inline double lse_allowed(double expected) { return std::max(kLseAbsolute, kLseRelative * std::fabs(expected)); }

// Root mean square of what rounding to a type adds to numbers of all sizes: relative to them (0.21 of a unit in the
// last place at 1), and where they are so small that they lose bits, or are flushed to zero, absolute.
struct Roundings {
  double relative = 0, least = 0;
};
inline constexpr Roundings kF16Rounding = {0.2123 * 0x1p-10, 0.29 * 0x1p-24};
inline constexpr Roundings kBF16Rounding = {0.2123 * 0x1p-7, 0x1p-126};
// Thirty-two times its own: the operators' own approximations show, an exp of 10 loses three bits.
inline constexpr Roundings kF32Rounding = {32 * 0.2123 * 0x1p-23, 0x1p-126};

inline const Roundings& rounding_of(ElementType type) {
  return type == ElementType::kF32 ? kF32Rounding : type == ElementType::kBF16 ? kBF16Rounding : kF16Rounding;
}

// What rounding makes of attention's rows. A score of float32 is off by its size, times the root of its terms, and
// the weights are off by as much. Where few keys carry a row, what the naive computation is off by is chance, and this
// is its deviation: measured, PyTorch's error at deviations of 4 and 8. Scores farther from zero are exact in trials.
struct AttentionRoundings {
  Roundings of_element;
  double of_score = 0;  // times the size of what the row sums exponentials of, in natural units, at most kMostScore
};
inline constexpr double kMostScore = 64;
// A score's size is what it is and, since terms may cancel, a share of what keys of deviation 1 may make of the query.
inline constexpr double kOfQuery = 0.25;
inline double score_size(double farthest, double scaled_query) {
  return std::min(farthest + kOfQuery * scaled_query, kMostScore);
}
inline AttentionRoundings attention_roundings(ElementType type, int head_dim) {
  if (type != ElementType::kF32) return {rounding_of(type)};
  return {{4 * 0.2123 * 0x1p-23, 0x1p-126}, 0.5 * 0.2123 * 0x1p-23 * std::sqrt(head_dim)};
}
inline Roundings at_score(const AttentionRoundings& roundings, double size) {
  return {roundings.of_element.relative + roundings.of_score * size, roundings.of_element.least};
}

// Whether one is finite and the other is not, once that is rounded to its type, or they are not the same infinity. NaN
// where keys are hidden is a row that has none: 0 stands for it too.
bool differs_in_kind(double found, double expected, ElementType type);

// An error in a unit. What must be zero has none.
double in_unit(double error, double unit);

// One row's errors, or its values.
struct RowError {
  double squares = 0, largest = 0;
  std::int64_t largest_at = 0, elements = 0;
  void add(double difference, std::int64_t at);  // one that is no number passes no bound
  double norm() const { return std::sqrt(squares); }
};

// Elements of a row may differ in size, and their errors with them: an element's unit is at least a third of the naive
// computation's largest error in the row.
inline constexpr double kOfLargest = 1.0 / 3;

struct RowUnit {
  double norm = 0, element = 0;
};
RowUnit row_unit(const RowError& naive, const RowError& values, const Roundings& rounding);

// The errors of many rows in their units.
struct RowErrors {
  double worst_norm = 0;       // of a row
  std::int64_t worst_row = 0;  // by the caller's numbers
  double worst_element = 0;
  std::int64_t worst_element_at = 0;  // by the caller's numbers
  double squares = 0;                 // of norms
  std::int64_t rows = 0;              // that have a unit

  void add(std::int64_t row, const RowUnit& unit, const RowError& error);
  double root_mean_square() const;
};

// What one run left in one output. Words name places, and what was found there.
struct Measured {
  std::string output;           // what a refusal calls it
  std::string inputs;           // which inputs it was run on, where `output` does not say so; "": the plain ones
  std::int64_t unwritten = 0;   // elements that still hold the poison
  std::string first_unwritten;  // "": not known
  std::string stray;            // what was written where nothing of the output is; "": nothing
  std::string other_kind;       // what is finite where the reference is not, or the other way; "": nothing
  std::vector<Share> errors;
};

// The three bounds on rows, in the order in which a refusal should name them. row, element: the worst ones' names.
// `norm`: what all rows' may be.
std::vector<Share> judged_rows(const RowErrors& errors, const std::string& row, const std::string& element,
                               double norm = kFactors.norm);

// What all rows' may be of attention. A row of float32 that few keys carry has one error, by chance; so have few rows.
inline double attention_norm(ElementType type, std::int64_t rows) {
  const double chance =
      type == ElementType::kF32 ? 3 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, rows))) : 0;
  return kFactors.norm * (1 + chance);
}

// Refuses in the words of the first output with a fault. Error and bound are those of the error that is closest to its
// bound, or farthest over it; Verdict::errors has such a one of each kind, its place with the output and the inputs.
Verdict judge(const std::vector<Measured>& outputs);

// Runs the program for the run'th time, of those that a trial has for it, and measures what it left.
using MeasureRun = std::function<Status(std::size_t run, std::vector<Measured>* outputs)>;

// All runs, judged: the first that fails, else the one closest to its bound; Verdict::errors are of all that ran. A run
// that comes to nothing fails in the words of its status.
Verdict verify(std::size_t runs, const MeasureRun& measure);

}  // namespace gqa

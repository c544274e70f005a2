// judgement.cc: see judgement.h.
#include "runtime/verify/judgement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "search/graph/prove/evaluate.h"

namespace gqa {
namespace {

bool within(const Share& share) { return share.error <= share.bound; }

// What is off, and where.
std::string words(const Share& share) {
  switch (share.kind) {
    case ErrorKind::kAllRows:
      return share.where + ": root mean square of their norms, each against the naive error's";
    case ErrorKind::kRow:
      return share.where + ": norm, against the naive error's";
    case ErrorKind::kElement:
      return share.where + ", against the naive error's in its row";
    case ErrorKind::kLse:
      break;
  }
  return share.where + ": as a share of float32's";
}

// The first of an output's faults in the order in which one explains the next; "": none.
std::string fault(const Measured& output) {
  std::ostringstream out;
  if (output.unwritten > 0) {
    out << output.unwritten << " elements were not written";
    if (!output.first_unwritten.empty()) out << ", the first at " << output.first_unwritten;
    out << ": expected each written";
  } else if (!output.stray.empty()) {
    out << output.stray;
  } else if (!output.other_kind.empty()) {
    out << output.other_kind;
  } else if (const auto at = std::find_if_not(output.errors.begin(), output.errors.end(), within);
             at != output.errors.end()) {
    out << words(*at) << "; the error " << at->error << " is over the bound " << at->bound;
  }
  return out.str();
}

// How far an error goes towards its bound; one that is no number goes farthest.
double share(double error, double bound) {
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  return bound > 0 ? error / bound : error;
}
double share(const Share& one) { return share(one.error, one.bound); }

// Keeps the one of each kind that is closest to its bound, the first of equals; in the order of the kinds.
void keep_worst(Share one, std::vector<Share>* errors) {
  const auto at = std::lower_bound(errors->begin(), errors->end(), one,
                                   [](const Share& a, const Share& b) { return a.kind < b.kind; });
  if (at == errors->end() || at->kind != one.kind)
    errors->insert(at, std::move(one));
  else if (share(one) > share(*at))
    *at = std::move(one);
}

// With its place among all runs and outputs.
Share placed(const Measured& output, Share one) {
  one.where = output.output + (output.inputs.empty() ? "" : ", " + output.inputs) + ": " + one.where;
  return one;
}

}  // namespace

RowUnit row_unit(const RowError& naive, const RowError& values, const Roundings& rounding) {
  if (values.largest == 0 && naive.largest == 0) return {};
  const double root = std::sqrt(static_cast<double>(values.elements));
  const double norm = std::max({naive.norm(), rounding.relative * values.norm(), rounding.least * root});
  return {norm, std::max({norm / root, kOfLargest * naive.largest, rounding.relative * values.largest})};
}

bool differs_in_kind(double found, double expected, ElementType type) {
  const double rounded = round_to(expected, type);
  if (std::isnan(expected)) return !std::isnan(found) && found != 0;
  return std::isinf(rounded) ? found != rounded : !std::isfinite(found);
}

double in_unit(double error, double unit) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (error == 0) return 0;
  const double share = error / unit;
  return share < kMost ? share : kMost;
}

void RowError::add(double difference, std::int64_t at) {
  const double error = std::isfinite(difference) ? std::fabs(difference) : std::numeric_limits<float>::max();
  squares += error * error;
  ++elements;
  if (error <= largest) return;
  largest = error;
  largest_at = at;
}

void RowErrors::add(std::int64_t row, const RowUnit& unit, const RowError& error) {
  const double norm = in_unit(error.norm(), unit.norm);
  const double element = in_unit(error.largest, unit.element);
  if (norm > worst_norm) {
    worst_norm = norm;
    worst_row = row;
  }
  if (element > worst_element) {
    worst_element = element;
    worst_element_at = error.largest_at;
  }
  squares += norm * norm;
  rows += unit.norm > 0;
}

double RowErrors::root_mean_square() const {
  return std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(1, rows)));
}

std::vector<Share> judged_rows(const RowErrors& errors, const std::string& row, const std::string& element,
                               double norm) {
  return {{ErrorKind::kElement, element, errors.worst_element, kFactors.largest},
          {ErrorKind::kRow, row, errors.worst_norm, kFactors.row},
          {ErrorKind::kAllRows, std::to_string(errors.rows) + " rows", errors.root_mean_square(), norm}};
}

Verdict judge(const std::vector<Measured>& outputs) {
  Verdict verdict;
  verdict.passed = true;
  for (const Measured& output : outputs) {
    if (const std::string words = fault(output); verdict.passed && !words.empty()) {
      verdict.passed = false;
      verdict.reason = output.output + ": " + words;
    }
    for (const Share& one : output.errors) keep_worst(placed(output, one), &verdict.errors);
  }
  const auto worst = std::max_element(verdict.errors.begin(), verdict.errors.end(),
                                      [](const Share& a, const Share& b) { return share(a) < share(b); });
  if (worst != verdict.errors.end()) {
    verdict.error = worst->error;
    verdict.bound = worst->bound;
  }
  return verdict;
}

Verdict verify(std::size_t runs, const MeasureRun& measure) {
  Verdict worst;
  worst.passed = true;
  std::vector<Share> errors;
  for (std::size_t run = 0; run < runs && worst.passed; ++run) {
    std::vector<Measured> outputs;
    if (Status status = measure(run, &outputs); !status.ok())
      return {false, 0, 0, status.message(), status.code() == Code::kOutOfMemory};
    Verdict verdict = judge(outputs);
    for (const Share& one : verdict.errors) keep_worst(one, &errors);
    if (run == 0 || !verdict.passed || share(verdict.error, verdict.bound) > share(worst.error, worst.bound))
      worst = std::move(verdict);
  }
  worst.errors = std::move(errors);
  return worst;
}

}  // namespace gqa

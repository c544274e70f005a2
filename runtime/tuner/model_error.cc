// model_error.cc: see model_error.h.
#include "runtime/tuner/model_error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace gqa {
namespace {

// Average ranks: equal values share theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i) rank[order[i]] = static_cast<double>(first + last - 1) / 2;
    first = last;
  }
  return rank;
}

// Pearson's correlation of ranks.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double together = 0, a_alone = 0, b_alone = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    together += (a[i] - mean) * (b[i] - mean);
    a_alone += (a[i] - mean) * (a[i] - mean);
    b_alone += (b[i] - mean) * (b[i] - mean);
  }
  return a_alone > 0 && b_alone > 0 ? together / std::sqrt(a_alone * b_alone) : 0;
}

}  // namespace

ModelError model_error(const std::vector<Attempt>& attempts) {
  std::vector<double> predicted, measured;
  for (const Attempt& attempt : attempts) {
    if (attempt.samples == 0 || attempt.predicted_us == 0) continue;  // nothing is predicted of what has no rival
    predicted.push_back(attempt.predicted_us);
    measured.push_back(attempt.median_us);
  }
  ModelError error;
  error.timed = static_cast<int>(predicted.size());
  if (error.timed == 0) return error;
  const auto fastest = static_cast<std::size_t>(std::min_element(measured.begin(), measured.end()) - measured.begin());
  error.predicted_us = predicted[fastest];
  error.measured_us = measured[fastest];
  error.rank = 1 + static_cast<int>(std::count_if(predicted.begin(), predicted.end(),
                                                  [&](double other) { return other < error.predicted_us; }));
  error.correlation = error.timed < 2 ? 1 : correlation(ranks(predicted), ranks(measured));
  return error;
}

std::string to_text(const ModelError& error) {
  if (error.timed == 0) return "";
  char text[128];
  std::snprintf(text, sizeof text, "predicted %.1f us, rank %d of %d, rank correlation %.2f", error.predicted_us,
                error.rank, error.timed, error.correlation);
  return text;
}

}  // namespace gqa

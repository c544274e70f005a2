// statistics.cc: see statistics.h.
#include "runtime/tuner/statistics.h"

#include <algorithm>
#include <cmath>

namespace gqa {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Summary summarize(const std::vector<double>& values) {
  Summary summary;
  summary.median = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::fabs(value - summary.median));
  summary.spread = 1.4826 * median(std::move(distances));
  // sqrt(pi / 2): the median of a normal sample is that much less certain than its mean.
  if (!values.empty()) summary.error = 1.2533 * summary.spread / std::sqrt(static_cast<double>(values.size()));
  return summary;
}

bool clearly_faster(const Summary& a, const Summary& b) {
  return b.median - a.median > 2 * std::hypot(a.error, b.error);
}

}  // namespace gqa

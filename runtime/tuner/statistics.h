// statistics.h: the few numbers timings are judged by.
// Owns: median, spread (scaled median absolute deviation) and the standard error of a median: all unmoved by outliers.
// Never: measures.
// Threads: pure functions.
#pragma once

#include <vector>

namespace gqa {

struct Summary {
  double median = 0;
  double spread = 0;  // 1.4826 x median absolute deviation: a standard deviation where the noise is normal
  double error = 0;   // standard error of the median
};

double median(std::vector<double> values);  // 0 if empty
Summary summarize(const std::vector<double>& values);

// True if a is faster than b by more than twice the standard error of their difference.
bool clearly_faster(const Summary& a, const Summary& b);

}  // namespace gqa

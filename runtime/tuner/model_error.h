// model_error.h: how well the cost model ranked what was then timed.
// Owns: ModelError, from the attempts of one tuning: the winner's predicted rank, and the ranks' correlation.
// Never: changes a choice; it is reported, so that the model can be improved.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/tuner/attempt.h"

namespace gqa {

struct ModelError {
  int timed = 0;            // candidates that were
  int rank = 0;             // of the fastest, by prediction; 1 is best, ties count in its favour; 0: nothing was timed
  double correlation = 0;   // Spearman's, of predicted and measured ranks; 1 where fewer than two were timed
  double predicted_us = 0;  // of the fastest
  double measured_us = 0;
};

ModelError model_error(const std::vector<Attempt>& attempts);

// "predicted 219.1 us, rank 1 of 12, rank correlation 0.87"; "" where nothing was timed.
std::string to_text(const ModelError& error);

}  // namespace gqa
